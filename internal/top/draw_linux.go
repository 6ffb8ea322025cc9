package top

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/confine-run/confine/internal/config"
	"github.com/confine-run/confine/internal/unseen"
)

// plain makes a text that no terminal obeys and that stands where it is put: what is hostile, unseen, or drawn over others is "?". A
// name is somebody else's to choose.
func plain(text string) string {
	return strings.Map(func(r rune) rune {
		if r == utf8.RuneError || !unicode.IsPrint(r) || unseen.Is(r) || unicode.In(r, unicode.Mn, unicode.Me) {
			return '?'
		}
		return r
	}, text)
}

// columns are the titles, and how wide each is at most; negative: to the left.
var columns = []struct {
	title string
	most  int
}{
	{"NAME", -24}, {"STATE", -11}, {"CPU%", 6}, {"CPU", 10}, {"MEMORY", 8}, {"LIMIT", 8}, {"TASKS", 7}, {"SCRATCH", 8}, {"PROC", 5}, {"NET OK", 7}, {"REFUSED", 7}, {"AGE", 8},
}

func cells(r *Row, now time.Time) []string {
	name := plain(r.Name)
	if name == "" {
		name = plain(r.ID)
	}
	if !r.Session {
		name = "@" + name
	}
	cpu, memory, tasks, scratch := "-", "-", "-", "-"
	if u := r.Usage; u != nil {
		cpu, memory, tasks, scratch = since(u.CPU), size(u.Memory), count(u.Tasks), size(u.Scratch)
	}
	percent, limit := "-", "-"
	if r.CPUPercent >= 0 {
		percent = strconv.FormatFloat(r.CPUPercent, 'f', 1, 64)
	}
	if r.Limits.Memory > 0 {
		limit = size(r.Limits.Memory)
	}
	ok, refused := "-", "-"
	if t := r.Traffic; t != nil {
		ok, refused = count(t.Allowed), count(t.Blocked)
	}
	return []string{name, plain(r.State), percent, cpu, memory, limit, tasks, scratch, strconv.Itoa(r.Processes), ok, refused, age(now.Sub(r.Created))}
}

func count(n int64) string {
	if n < 0 {
		return "-"
	}
	return strconv.FormatInt(n, 10)
}

// size is a number of bytes in few characters.
func size(n int64) string {
	switch {
	case n < 0:
		return "-"
	case n == 0:
		return "0"
	}
	for _, unit := range []struct {
		name string
		of   int64
	}{{"G", 1 << 30}, {"M", 1 << 20}, {"K", 1 << 10}} {
		if n >= 10*unit.of {
			return strconv.FormatInt(n/unit.of, 10) + unit.name
		}
		if n >= unit.of {
			return strconv.FormatFloat(float64(n)/float64(unit.of), 'f', 1, 64) + unit.name
		}
	}
	return config.FormatSize(n)
}

// since is a time in few characters.
func since(d time.Duration) string {
	switch {
	case d < 0:
		return "-"
	case d < time.Minute:
		return strconv.FormatFloat(d.Seconds(), 'f', 1, 64) + "s"
	case d < time.Hour:
		return fmt.Sprintf("%dm%02ds", int(d.Minutes()), int(d.Seconds())%60)
	}
	return fmt.Sprintf("%dh%02dm", int(d.Hours()), int(d.Minutes())%60)
}

func age(d time.Duration) string {
	if d >= 0 && d < time.Minute {
		return strconv.Itoa(int(d.Seconds())) + "s"
	}
	return since(d)
}

// lines is the picture as text, at most so many columns wide and so many lines high; 0 is any.
func (p *Picture) lines(width, height int) []string {
	var cpu float64
	var memory, tasks int64
	for i := range p.Sandboxes {
		r := &p.Sandboxes[i]
		cpu += max(0, r.CPUPercent)
		if r.Usage != nil {
			memory += max(0, r.Usage.Memory)
			tasks += max(0, r.Usage.Tasks)
		}
	}
	all := []string{fmt.Sprintf("%s  sandboxes %d  CPU %.1f%%  memory %s  tasks %d", p.Time.Format("15:04:05"), len(p.Sandboxes), cpu, size(memory), tasks)}
	if p.Unreachable != "" {
		all = append(all, "server: "+plain(p.Unreachable))
	}
	for _, pool := range p.Pools {
		all = append(all, fmt.Sprintf("pool %s for %s  ready %d of %d to %d  claims: parked %d, cold %d",
			plain(pool.Profile), plain(pool.For), pool.Ready, pool.Min, pool.Max, pool.Parked.Claims, pool.Cold.Claims))
	}
	rows := [][]string{nil}
	for _, c := range columns {
		rows[0] = append(rows[0], c.title)
	}
	for i := range p.Sandboxes {
		rows = append(rows, cells(&p.Sandboxes[i], p.Time))
	}
	for i, row := range rows {
		if height > 0 && len(all) == height-1 && i < len(rows)-1 {
			all = append(all, fmt.Sprintf("… and %d more", len(rows)-i))
			break
		}
		all = append(all, aligned(row))
	}
	if height > 0 && len(all) > height {
		all = all[:height]
	}
	for i := range all {
		all[i] = cut(all[i], width)
	}
	return all
}

// aligned is one row, each cell in its column.
func aligned(row []string) string {
	var b strings.Builder
	for i, cell := range row {
		if i > 0 {
			b.WriteByte(' ')
		}
		most := columns[i].most
		cell = cut(cell, max(most, -most))
		pad := strings.Repeat(" ", max(most, -most)-utf8.RuneCountInString(cell))
		if most > 0 {
			b.WriteString(pad + cell)
		} else {
			b.WriteString(cell + pad)
		}
	}
	return strings.TrimRight(b.String(), " ")
}

// cut is a text of at most so many characters; 0 is any number.
func cut(text string, width int) string {
	if width <= 0 || utf8.RuneCountInString(text) <= width {
		return text
	}
	runes := slices.Collect(func(yield func(rune) bool) {
		for _, r := range text {
			if !yield(r) {
				return
			}
		}
	})
	return string(runes[:width-1]) + "…"
}
