package files

import (
	"fmt"
	"sync"
	"testing"
)

func TestALogIsBounded(t *testing.T) {
	asked := 0
	var told []string
	l := NewLog(func(a *Access) (Refusal, bool) {
		asked++
		return Refusal{Rule: "r"}, a.Path != "/fine"
	}, func(r *Refused) { told = append(told, r.What) })
	const n = 100_000
	for i := range n {
		l.Note(Access{Path: fmt.Sprintf("/x%d", i), Wish: Read})
		l.Note(Access{Path: "/x0", Wish: Read})
		l.Note(Access{Path: "/fine", Wish: Read})
		l.Note(Access{Path: "/x0", Wish: Look})
	}
	l.Close()
	all, others := l.List()
	if len(all) != mostRefused || others != n-mostRefused || len(told) != mostRefused || len(l.judged) > mostJudged+1 {
		t.Errorf("%d kept, %d others, %d told, %d judgements", len(all), others, len(told), len(l.judged))
	}
	if all[0].Count != n+1 || asked > n+1 {
		t.Errorf("counted %d, asked %d times", all[0].Count, asked)
	}
}

func TestManyAtOnceAreCountedOnce(t *testing.T) {
	l := NewLog(func(*Access) (Refusal, bool) { return Refusal{}, true }, nil)
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for i := range 1000 {
				l.Note(Access{Path: fmt.Sprint("/", i%10), Wish: Exec})
			}
		})
	}
	all.Wait()
	l.Close()
	total := int64(0)
	list, _ := l.List()
	for _, r := range list {
		total += r.Count
	}
	if len(list) != 10 || total != 8000 {
		t.Errorf("%d kinds, %d times", len(list), total)
	}
}

func TestADenialOfAuditIsNotReportedTwice(t *testing.T) {
	l := NewLog(func(*Access) (Refusal, bool) { return Refusal{Rule: "mine"}, true }, nil)
	l.Note(Access{Path: "/a", Wish: Read})
	l.Add(Refused{Refusal: Refusal{Rule: "landlock"}, What: "read /a"})
	l.Add(Refused{Refusal: Refusal{Rule: "landlock"}, What: "write /a"})
	l.Add(Refused{Refusal: Refusal{Rule: "landlock"}, What: "write /a"})
	list, _ := l.List()
	if len(list) != 2 || list[0].Count != 1 || list[1].Count != 2 {
		t.Errorf("%+v", list)
	}
}

func TestPrintable(t *testing.T) {
	for name, want := range map[string]string{
		"/a b": "/a b", "/a\nb": `"/a\nb"`, "/a\xff": `"/a\xff"`, "/a ": `"/a "`, `/a"`: `"/a\""`, "/ä": "/ä",
	} {
		if got := Printable(name); got != want {
			t.Errorf("%q: %s", name, got)
		}
	}
}
