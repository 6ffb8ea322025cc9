package image

import (
	"errors"
	"io"
	"runtime"
	"syscall"
)

var (
	// ErrNotImage: it is no image of a form that is known.
	ErrNotImage = errors.New("is no OCI image layout and no tar")
	// ErrDamaged: it is one, and not all there.
	ErrDamaged = errors.New("is damaged")
	// ErrPlatform: it is for another system or processor.
	ErrPlatform = errors.New("is not for this host")

	errUnmarked  = errors.New("is an OCI image layout without the file oci-layout, which marks one")
	errSeveral   = errors.New("holds several images, and it takes one")
	errReplaced  = errors.New("was replaced meanwhile")
	errNoProgram = errors.New("is compressed, and what undoes that isn't installed")
	errForeign   = errors.New("somebody else owns it or can write to it")
	// What an image may grow to.
	errTooLarge = errors.New("the image holds more than 32 GiB, holes counted")
	errTooMany  = errors.New("the image holds more than 1048576 names (a long path counts for several)")
	errNoSpace  = errors.New("the image takes more than nine tenths of the disk space that was free")
)

// cacheError is about the place that images are unpacked to, and not about an image.
type cacheError struct{ error }

func (e cacheError) Unwrap() error { return e.error }

func inCache(err error) error {
	if err == nil {
		return nil
	}
	return cacheError{err}
}

// Remedy says what to do about an error of Unpack or Find; "" is nothing that is known.
func Remedy(err error) string {
	for _, r := range [...]struct {
		err    error
		remedy string
	}{
		{ErrPlatform, "get the image for this host: docker pull --platform linux/" + runtime.GOARCH + ", or skopeo --override-arch " + runtime.GOARCH + " copy"},
		{syscall.ENOSPC, "it is unpacked below XDG_CACHE_HOME, or ~/.cache: make room there, or set XDG_CACHE_HOME to where there is some"},
		{syscall.EDQUOT, "it is unpacked below XDG_CACHE_HOME, or ~/.cache: make room there, or set XDG_CACHE_HOME to where there is some"},
		{errNoSpace, "it is unpacked below XDG_CACHE_HOME, or ~/.cache: make room there, or set XDG_CACHE_HOME to where there is some"},
		{errTooLarge, "if you trust it, unpack it yourself, and name the directory: --rootfs DIR"},
		{errTooMany, "if you trust it, unpack it yourself, and name the directory: --rootfs DIR"},
		{errForeign, "images are kept where nobody else can change them: set XDG_CACHE_HOME to a directory of your own, or chmod go-w that"},
		{errNoProgram, "install it, or decompress the image yourself"},
		{errUnmarked, "copy or save the image again; or, if nothing else is missing: echo '{\"imageLayoutVersion\":\"1.0.0\"}' >DIR/oci-layout"},
		{errSeveral, "save the one alone: docker save NAME, or skopeo copy oci:DIR:NAME oci:OTHER"},
		{errReplaced, "run it again, once nobody writes to the image"},
		{ErrDamaged, "a part of the image is missing, or isn't as it was made: copy, pull or save it again"},
		{io.ErrUnexpectedEOF, "a part of the image is missing, or isn't as it was made: copy, pull or save it again"},
		{ErrNotImage, "it takes a directory of files, an OCI image layout, or a tar of either"},
	} {
		if errors.Is(err, r.err) { // the first that fits
			return r.remedy
		}
	}
	if errors.As(err, new(cacheError)) {
		return "images are unpacked below XDG_CACHE_HOME, or ~/.cache: set XDG_CACHE_HOME to a directory that you can write to"
	}
	return ""
}
