package downloads

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
)

// WriteTable writes a list as a table.
func (l List) WriteTable(to io.Writer) error {
	w := tabwriter.NewWriter(to, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "KIND\tWHAT\tCHECKED AGAINST\tASKED FOR IN")
	for _, i := range l.Items {
		where := ""
		if len(i.Positions) > 0 {
			where = i.Positions[0].String()
		}
		if more := len(i.Positions) - 1; more > 0 {
			where += fmt.Sprintf(" and %d more", more)
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\n", i.Kind, i.description(), i.checksumOrSource(), where)
	}
	return w.Flush()
}

// String formats an item as text: "package yum containerd.io 2.2*".
func (i Item) String() string {
	switch i.Kind {
	case KindURL, KindUnresolved:
		return i.Name
	}
	return string(i.Kind) + " " + i.description()
}

// description formats an item without its kind.
func (i Item) description() string {
	switch i.Kind {
	case KindPackage:
		text := i.Manager + " " + i.Name
		if i.Version != "" {
			text += " " + i.Version
		}
		return text
	case KindRepository:
		return strings.TrimSpace(i.Manager + " " + i.Name + " " + i.Suite)
	case KindUnresolved:
		return i.Name + ": " + i.Reason
	}
	return i.Name
}

// checksumOrSource returns the digest of an item, or the name of the file that the digest comes
// from; "-" for a URL without either.
func (i Item) checksumOrSource() string {
	switch {
	case i.SHA256 != "":
		return "sha256:" + i.SHA256
	case i.ChecksumFrom != "":
		return i.ChecksumFrom[strings.LastIndex(i.ChecksumFrom, "/")+1:]
	case i.Kind == KindURL:
		return "-"
	}
	return ""
}

// WriteJSON writes a list as indented JSON.
func (l List) WriteJSON(to io.Writer) error {
	enc := json.NewEncoder(to)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	if l.Items == nil {
		l.Items = []Item{}
	}
	return enc.Encode(l)
}
