package ui

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/types"

	osm "github.com/osm-gitops/osm-gitops/pkg/api/osm/v1alpha1"
	"github.com/osm-gitops/osm-gitops/pkg/inspect/trace"
	"github.com/osm-gitops/osm-gitops/pkg/render"
)

// Tracer traces objects to their commit, and reads the inputs for rendering a generation
// again with placeholders.
type Tracer interface {
	Node(ctx context.Context, name string) (*trace.Result, error)
	Provenance(ctx context.Context, name string) (*trace.Result, error)
	Profile(ctx context.Context, object string) (*osm.OperatingSystemProfile, string, error)
	Generation(ctx context.Context, pool types.NamespacedName, inputDigest string) (render.Input, error)
}

// maxCompared bounds the compared versions of one commit: each comparison reads two objects
// per request.
const maxCompared = 25

// compare reads the differences of the versions of a commit.
func (s *Server) compare(ctx context.Context, v *Commit) error {
	for i := range v.Profiles {
		if i >= maxCompared {
			v.Profiles[i].Note = "Not compared here, since more than " + strconv.Itoa(maxCompared) + " versions belong to this commit."
			continue
		}
		if err := s.compareProfiles(ctx, &v.Profiles[i]); err != nil {
			return err
		}
	}
	if v.Rendered == nil {
		return nil
	}
	return s.compareRendered(ctx, v.Rendered)
}

func (s *Server) compareProfiles(ctx context.Context, ch *Change) error {
	after, note, err := s.profileDocuments(ctx, ch.object)
	if err != nil || note != "" {
		ch.Note = note
		return err
	}
	var before []document
	if ch.before != "" {
		if before, note, err = s.profileDocuments(ctx, ch.before); err != nil || note != "" {
			ch.Note = note
			return err
		}
	}
	ch.Files = diffOf(before, after)
	return nil
}

// profileDocuments reads a profile; a note says why it is missing.
func (s *Server) profileDocuments(ctx context.Context, object string) (docs []document, note string, err error) {
	osp, _, err := s.Trails.Profile(ctx, object)
	if note, err = lacking(err); err != nil || note != "" {
		return nil, note, err
	}
	return profileDocuments(osp.Spec), "", nil
}

// compareRendered renders two generations of a pool again, with placeholders for
// credentials (security.md 15).
func (s *Server) compareRendered(ctx context.Context, r *Rendered) error {
	if r.was == nil {
		r.Note = "This is the pool's first configuration."
		return nil
	}
	namespace, name, _ := strings.Cut(r.Pool, "/")
	var inputs [2]render.Input
	for i, g := range []*configuration{r.was, r.after} {
		in, err := s.Trails.Generation(ctx, types.NamespacedName{Namespace: namespace, Name: name}, g.digest)
		if r.Note, err = lacking(err); err != nil || r.Note != "" {
			return err
		}
		inputs[i] = in
	}
	files, err := trace.Compare(inputs[0], inputs[1], mask)
	var invalid *render.InvalidError
	if errors.As(err, &invalid) {
		r.Note = text("This release cannot render it: " + err.Error())
		return nil
	}
	if err != nil {
		return fmt.Errorf("comparing configurations of pool %s: %w", r.Pool, err)
	}
	r.Files = comparedFiles(files)
	return nil
}

// lacking turns errors about missing inputs into a note, and returns all others.
func lacking(err error) (note string, _ error) {
	var missing *trace.NotFoundError
	var edited *trace.EditedError
	if errors.As(err, &missing) || errors.As(err, &edited) {
		return text("It cannot be compared: " + err.Error() + "."), nil
	}
	return "", err
}
