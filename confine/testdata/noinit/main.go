// A program that forgets to call confine.Init.
package main

import (
	"fmt"

	"github.com/confine-run/confine/confine"
)

func main() {
	r, err := confine.Command("true").Run()
	if r == nil {
		fmt.Println(err)
		return
	}
	fmt.Println(r.Status, r.Reason)
}
