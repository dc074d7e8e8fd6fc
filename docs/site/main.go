// Command site converts the Markdown of this repository to a folder of HTML: one page per file, in
// the same folders, with navigation in the order of docs/README.md. It fails if a link or an
// anchor has no target. No page needs a server, a script, or another host.
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

// build writes the site and returns its number of pages. It reports all broken links at once, and
// writes nothing if there are any.
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
