package hint

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"testing"
)

func TestSplitFindsTheRemedyOfAWrappedError(t *testing.T) {
	inner := With(fs.ErrNotExist, "make it")
	for _, c := range []struct {
		err               error
		text, remedy, all string
	}{
		{errors.New("a"), "a", "", "a"},
		{errors.New("a\nhint: forged"), "a\nhint: forged", "", "a\nhint: forged"},
		{New("a", "b"), "a", "b", "a\nhint: b"},
		{With(New("a", "b"), ""), "a\nhint: b", "", "a\nhint: b"},
		{fmt.Errorf("open %q: %w", "x", inner), `open "x": file does not exist`, "make it", "open \"x\": file does not exist\nhint: make it"},
	} {
		if text, remedy := Split(c.err); text != c.text || remedy != c.remedy || c.err.Error() != c.all {
			t.Errorf("%q: %q, %q", c.err, text, remedy)
		}
	}
	if !errors.Is(inner, fs.ErrNotExist) {
		t.Error("a remedy hides the error")
	}
}

func TestNoticeIsAStringInJSON(t *testing.T) {
	b, err := json.Marshal([]Notice{{"a", ""}, {"b", "c"}})
	if want := `["a","b\nhint: c"]`; err != nil || string(b) != want {
		t.Errorf("%s, %v", b, err)
	}
}
