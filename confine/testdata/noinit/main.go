// A program that forgets to call confine.Init.
package main

import (
	"context"
	"fmt"

	"github.com/confine-run/confine/confine"
)

func main() {
	policy := confine.Default()
	r, err := confine.Run(context.Background(), &policy, "true")
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(r.Status, r.Reason)
}
