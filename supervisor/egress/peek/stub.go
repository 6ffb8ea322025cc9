package peek

func QUIC(b []byte) bool { return false }
