package lint

import (
	"context"

	"github.com/osm-gitops/osm-gitops/pkg/profile"
)

// File is a file to check.
type File struct {
	// Path as findings name it.
	Path string
	Data []byte
}

// Linter checks files with profiles. Its zero value has the rules of the engine.
type Linter struct {
	// TextChecks are asked about every distinct text that nodes get.
	TextChecks []TextCheck
	// ProfileChecks are asked about every profile that could be read.
	ProfileChecks []ProfileCheck
	// Workers is how many goroutines render; 0 is GOMAXPROCS.
	Workers int
	// Progress is told what has been done so far, from one goroutine at a time. May
	// be nil.
	Progress func(Progress)
}

// ProfileCheck looks at one profile as it stands in its file.
type ProfileCheck func(ctx context.Context, doc profile.Document) []Finding

// Progress is how far a run has come.
type Progress struct {
	// Profile that is rendered.
	Profile string
	// Done of Total renderings, of all profiles.
	Done, Total int
}
