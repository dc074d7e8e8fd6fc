package comparison

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/types"

	osm "github.com/osm-gitops/osm-gitops/pkg/api/osm/v1alpha1"
	"github.com/osm-gitops/osm-gitops/pkg/inspect/trace"
	"github.com/osm-gitops/osm-gitops/pkg/redact"
	"github.com/osm-gitops/osm-gitops/pkg/render"
)

// Inputs reads profiles, and the inputs for rendering a generation again with placeholders.
type Inputs interface {
	ReadProfileAndDigest(ctx context.Context, object string) (*osm.OperatingSystemProfile, string, error)
	ReadGenerationInput(ctx context.Context, pool types.NamespacedName, inputDigest string) (render.Input, error)
}

// CompareProfiles compares two profiles, "namespace/name"; an empty one has no documents. A
// note says why they cannot be compared.
func CompareProfiles(ctx context.Context, from Inputs, beforeProfile, afterProfile string) (files []FileDiff, note string, err error) {
	is, note, err := profileOf(ctx, from, afterProfile)
	if err != nil || note != "" {
		return nil, note, err
	}
	var was []document
	if beforeProfile != "" {
		if was, note, err = profileOf(ctx, from, beforeProfile); err != nil || note != "" {
			return nil, note, err
		}
	}
	return diffOf(was, is), "", nil
}

// profileOf reads a profile; a note says why it is missing.
func profileOf(ctx context.Context, from Inputs, object string) (docs []document, note string, err error) {
	osp, _, err := from.ReadProfileAndDigest(ctx, object)
	if note, err = noteForMissing(err); err != nil || note != "" {
		return nil, note, err
	}
	return profileDocuments(osp.Spec), "", nil
}

// Renderings renders two generations of a pool again, by their input digests, with
// placeholders for credentials (security.md 15). A note says why they cannot be compared.
func Renderings(ctx context.Context, from Inputs, pool, before, after string) (files []FileDiff, note string, err error) {
	namespace, name, _ := strings.Cut(pool, "/")
	var inputs [2]render.Input
	for i, digest := range []string{before, after} {
		in, err := from.ReadGenerationInput(ctx, types.NamespacedName{Namespace: namespace, Name: name}, digest)
		if note, err := noteForMissing(err); err != nil || note != "" {
			return nil, note, err
		}
		inputs[i] = in
	}
	differing, err := trace.Compare(inputs[0], inputs[1], redact.Mask)
	if _, ok := errors.AsType[*render.InvalidError](err); ok {
		return nil, redact.PrintableText("This release cannot render it: "+err.Error(), redact.MaxMessage), nil
	}
	if err != nil {
		return nil, "", fmt.Errorf("comparing configurations of pool %s: %w", pool, err)
	}
	return convertFileDiffs(differing), "", nil
}

// noteForMissing turns errors about missing inputs into a note, and returns all others.
func noteForMissing(err error) (note string, _ error) {
	var missing *trace.NotFoundError
	var edited *trace.EditedError
	if errors.As(err, &missing) || errors.As(err, &edited) {
		return redact.PrintableText("It cannot be compared: "+err.Error()+".", redact.MaxMessage), nil
	}
	return "", err
}
