package downloads

import (
	"bufio"
	"cmp"
	"fmt"
	"io"
	"maps"
	"net/url"
	"slices"
	"strings"

	"github.com/osm-gitops/osm-gitops/pkg/lint/shell/symbolic"
)

// Kind is what an Item is.
type Kind string

// The kinds, in the order in which a List has them.
const (
	// KindURL is a file.
	KindURL Kind = "url"
	// KindRepository is a repository of packages.
	KindRepository Kind = "repository"
	// KindPackage is a package that a package manager installs.
	KindPackage Kind = "package"
	// KindImage is a container image.
	KindImage Kind = "image"
	// KindUnresolved is a download that could not be determined.
	KindUnresolved Kind = "unresolved"
)

var kinds = []Kind{KindURL, KindRepository, KindPackage, KindImage, KindUnresolved}

// Item is one thing that nodes download. It contains no credentials: URLs have no user and
// password.
type Item struct {
	Kind Kind `json:"kind"`
	// Name is the URL of a file or a repository, the name of a package, or the reference
	// of an image. For an unresolved item it is the known part, with "${name}" for the
	// unknown parts.
	Name string `json:"name"`
	// SHA256 is the hexadecimal digest that the node compares a file with, if it is known.
	// ChecksumFrom is the URL of the file from which the node reads it.
	SHA256       string `json:"sha256,omitempty"`
	ChecksumFrom string `json:"checksumFrom,omitempty"`
	// Manager installs a package, or reads a repository: "apt", "yum".
	Manager string `json:"manager,omitempty"`
	// Version is the requested version of a package, or a pattern such as "2.2*"; empty for
	// the newest.
	Version string `json:"version,omitempty"`
	// Suite of an apt repository and its components: "noble stable".
	Suite string `json:"suite,omitempty"`
	// Repositories that were set up before the package is installed: it comes from one
	// of them, or from those of the distribution.
	Repositories []string `json:"repositories,omitempty"`
	// Architectures for which it is downloaded, empty for any.
	Architectures []string `json:"architectures,omitempty"`
	// Reason explains why it is unresolved, and what to do.
	Reason string `json:"reason,omitempty"`
	// Positions are the positions that request it.
	Positions []Position `json:"places"`
	// Pools that download it, "namespace/name".
	Pools []string `json:"pools,omitempty"`

	anyArchitecture bool
}

// Position is a position that requests a download.
type Position struct {
	// Profile is the profile's name, Path its file, and Line the line in the file; 0 if it
	// is unknown.
	Profile string `json:"profile,omitempty"`
	Path    string `json:"path,omitempty"`
	Line    int    `json:"line,omitempty"`
	// Stage is "bootstrap" or "provisioning".
	Stage string `json:"stage"`
	// File on the node, or the module of cloud-init, and FileLine the line in it.
	File     string `json:"file"`
	FileLine int    `json:"fileLine,omitempty"`
}

// String returns the position in the profile, if it is known, and the one on the node.
func (p Position) String() string {
	node := p.File
	if p.FileLine > 0 {
		node = fmt.Sprintf("%s:%d", node, p.FileLine)
	}
	if p.Path == "" || p.Line == 0 {
		return node
	}
	return fmt.Sprintf("%s:%d (%s)", p.Path, p.Line, node)
}

// List contains the downloads of the nodes of one or several pools.
type List struct {
	Items []Item `json:"items"`
}

// Unresolved returns the downloads that could not be determined.
func (l List) Unresolved() []Item {
	return slices.DeleteFunc(slices.Clone(l.Items), func(i Item) bool { return i.Kind != KindUnresolved })
}

// collector gathers items and merges equal ones.
type collector map[string]*Item

func (i *Item) key() string {
	return strings.Join([]string{string(i.Kind), i.Name, i.Manager, i.Version, i.Suite}, "\x00")
}

// add records an item, and returns the stored one with the same identity.
func (c collector) add(item Item) *Item {
	key := item.key()
	had, ok := c[key]
	if !ok {
		item.anyArchitecture = len(item.Architectures) == 0
		c[key] = &item
		return &item
	}
	had.anyArchitecture = had.anyArchitecture || len(item.Architectures) == 0
	had.SHA256, had.ChecksumFrom = cmp.Or(had.SHA256, item.SHA256), cmp.Or(had.ChecksumFrom, item.ChecksumFrom)
	had.Architectures = union(had.Architectures, item.Architectures)
	had.Repositories = union(had.Repositories, item.Repositories)
	had.Pools = union(had.Pools, item.Pools)
	for _, p := range item.Positions {
		if !slices.Contains(had.Positions, p) {
			had.Positions = append(had.Positions, p)
		}
	}
	return had
}

// sortedList sorts the items.
func (c collector) sortedList() List {
	var out List
	for _, key := range slices.Sorted(maps.Keys(c)) {
		item := *c[key]
		if item.anyArchitecture || len(item.Architectures) == len(symbolic.Architectures) {
			item.Architectures = nil
		}
		for _, suffix := range []string{".sha256", ".sha256sum", ".sha512", ".sha512sum"} {
			if _, ok := c[(&Item{Kind: KindURL, Name: item.Name + suffix}).key()]; ok && item.Kind == KindURL {
				item.ChecksumFrom = item.Name + suffix
				break
			}
		}
		slices.SortFunc(item.Positions, func(a, b Position) int {
			return cmp.Or(cmp.Compare(a.Path, b.Path), cmp.Compare(a.Line, b.Line), cmp.Compare(a.Stage, b.Stage), cmp.Compare(a.File, b.File), cmp.Compare(a.FileLine, b.FileLine))
		})
		out.Items = append(out.Items, item)
	}
	slices.SortStableFunc(out.Items, func(a, b Item) int { return cmp.Compare(slices.Index(kinds, a.Kind), slices.Index(kinds, b.Kind)) })
	return out
}

// WithPool returns the list with one more pool at each item, for a pool with the same downloads.
func (l List) WithPool(pool string) List {
	out := List{Items: slices.Clone(l.Items)}
	for i := range out.Items {
		out.Items[i].Pools = union(out.Items[i].Pools, []string{pool})
	}
	return out
}

// Merge combines the lists of several pools.
func Merge(lists ...List) List {
	c := collector{}
	for _, l := range lists {
		for _, item := range l.Items {
			c.add(item)
		}
	}
	return c.sortedList()
}

func union(a, b []string) []string {
	out := slices.Concat(a, b)
	slices.Sort(out)
	return slices.Compact(out)
}

// WithoutUser removes user and password from a URL.
func WithoutUser(text string) string {
	scheme, rest, ok := strings.Cut(text, "://")
	if !ok {
		return text
	}
	end := strings.IndexAny(rest, "/?#")
	if end < 0 {
		end = len(rest)
	}
	if at := strings.LastIndex(rest[:end], "@"); at >= 0 {
		rest = rest[at+1:]
	}
	return scheme + "://" + rest
}

// isLocalOrMetadataURL reports whether a URL refers to the machine itself or to the platform's metadata
// service. RFC 3927 and RFC 4291 define the addresses.
func isLocalOrMetadataURL(text string) bool {
	u, err := url.Parse(text)
	if err != nil {
		return false
	}
	host := u.Hostname()
	return host == "localhost" || host == "metadata.google.internal" || host == "::1" ||
		strings.HasPrefix(host, "127.") || strings.HasPrefix(host, "169.254.") || strings.HasPrefix(strings.ToLower(host), "fe80:")
}

// WriteMirrorList writes the list as input of a simple downloader, one URL and its digest per line,
// followed by the items for mirrors of package managers and registries.
func (l List) WriteMirrorList(to io.Writer) error {
	w := bufio.NewWriter(to)
	for _, i := range l.Items {
		switch i.Kind {
		case KindURL:
			fmt.Fprint(w, i.Name)
			if i.SHA256 != "" {
				fmt.Fprint(w, " sha256:", i.SHA256)
			}
			fmt.Fprintln(w)
		case KindImage:
			fmt.Fprintln(w, i.Kind, i.Name)
		case KindUnresolved:
			where := ""
			if len(i.Positions) > 0 {
				where = " (" + i.Positions[0].String() + ")"
			}
			fmt.Fprintf(w, "# unresolved: %s%s\n", strings.ReplaceAll(i.description(), "\n", " "), where)
		default:
			fmt.Fprintln(w, i.Kind, i.description())
		}
	}
	return w.Flush()
}
