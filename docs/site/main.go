// Command site converts the Markdown of this repository to a folder of HTML: one page per file, in
// the same folders, with navigation in the order of docs/README.md. It fails if a link or an
// anchor has no target. No page needs a server, a script, or another host.
//
//	go run ./docs/site . bin/site bin/a-to-z.md
//
// The last argument is a generated page, which is not in the repository.
package main

import (
	"errors"
	"fmt"
	"os"
)

func main() {
	if len(os.Args) != 3 && len(os.Args) != 4 {
		fmt.Fprintln(os.Stderr, "usage: go run ./docs/site REPOSITORY FOLDER [A-TO-Z]")
		os.Exit(2)
	}
	pages, err := build(os.Args[1], os.Args[2], os.Args[3:]...)
	if err != nil {
		fmt.Fprintln(os.Stderr, "site:", err)
		os.Exit(1)
	}
	fmt.Fprintf(os.Stderr, "site: wrote %d pages to %s\n", pages, os.Args[2])
}

// build writes the site and returns its number of pages. It reports all broken links at once, and
// writes nothing if there are any.
func build(from, to string, generated ...string) (int, error) {
	s := &site{fs: os.DirFS(from), pages: map[string]*page{}}
	if err := s.read(); err != nil {
		return 0, err
	}
	for _, file := range generated {
		if err := s.addAToZ(file); err != nil {
			return 0, err
		}
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
