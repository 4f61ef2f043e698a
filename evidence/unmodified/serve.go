// A web server, linked statically.
package main

import (
	"fmt"
	"net/http"
)

func main() {
	http.HandleFunc("/", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "Go answers") })
	if err := http.ListenAndServe(":8081", nil); err != nil {
		panic(err)
	}
}
