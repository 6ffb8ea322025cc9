package config

import "errors"

// Who can write to a file is not told by its mode here, so no list is believed.

func readTrustStore(store string, uid int) ([]trustedFile, error) {
	return nil, badStore(store, "trusted files are not supported on Windows", "name the file with --config", errors.ErrUnsupported)
}

func addTrust(store string, uid int, now []trustedFile) error {
	_, err := readTrustStore(store, uid)
	return err
}
