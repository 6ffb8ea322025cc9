package confinetest_test

import (
	"context"
	"fmt"

	"github.com/confine-run/confine/confine"
	"github.com/confine-run/confine/confine/confinetest"
	"github.com/confine-run/confine/status"
)

// answer is what a program does that is to be tested: it runs what it was given, and says how that went.
func answer(box *confine.Sandbox, code string) string {
	out, report, err := box.Command("python3", "-c", code).Output()
	if err != nil {
		return string(report.Status)
	}
	return string(out)
}

// The program is tested with a sandbox in which nothing runs.
func Example() {
	mock := &confinetest.Backend{Handle: confinetest.Script(
		confinetest.Step{Args: []string{"python3"}, Stdout: "42"},
		confinetest.Step{Result: confinetest.Result{Status: status.Timeout}},
	)}
	box, err := confine.Open(context.Background(), nil, confine.WithBackend(mock))
	if err != nil {
		fmt.Println(err)
		return
	}
	defer box.Close()
	fmt.Println(answer(box, "print(6*7)"), answer(box, "while True: pass"))
	// Output: 42 TIMEOUT
}
