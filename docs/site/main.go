// Command site turns the Markdown of this repository into a folder of HTML: a page for
// each file, beside one another as the files are, with navigation in the order of
// docs/README.md. It fails where a link or an anchor leads nowhere. No page needs a
// server, a script, or another host.
//
//	go run ./docs/site . bin/site
package main

import (
	"errors"
	"fmt"
	"os"
)

func main() {
	if len(os.Args) != 3 {
		fmt.Fprintln(os.Stderr, "usage: go run ./docs/site REPOSITORY FOLDER")
		os.Exit(2)
	}
	pages, err := build(os.Args[1], os.Args[2])
	if err != nil {
		fmt.Fprintln(os.Stderr, "site:", err)
		os.Exit(1)
	}
	fmt.Fprintf(os.Stderr, "site: wrote %d pages to %s\n", pages, os.Args[2])
}

// build writes the site, and returns how many pages it has. All broken links are told at
// once, and then nothing is written.
func build(from, to string) (int, error) {
	s := &site{fs: os.DirFS(from), pages: map[string]*page{}}
	if err := s.read(); err != nil {
		return 0, err
	}
	var broken []error
	for _, p := range s.sorted() {
		broken = append(broken, s.relink(p)...)
	}
	if err := errors.Join(broken...); err != nil {
		return 0, err
	}
	return len(s.pages), s.write(to)
}
