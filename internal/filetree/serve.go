package filetree

import (
	"io"
	"net/http"
	"time"
)

// Serve answers with the octets of a file, or the range of them that is asked for. A browser makes nothing else of them.
func Serve(w http.ResponseWriter, r *http.Request, from io.Reader, modified time.Time) {
	h := w.Header()
	h.Set("Content-Type", "application/octet-stream")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Cache-Control", "no-store")
	if seeker, ok := from.(io.ReadSeeker); ok {
		http.ServeContent(w, r, "", modified, seeker)
		return
	}
	_, _ = io.Copy(w, from)
}
