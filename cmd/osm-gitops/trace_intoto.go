package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	api "github.com/osm-gitops/osm-gitops/pkg/api/gitops/v1alpha1"
	"github.com/osm-gitops/osm-gitops/pkg/attestation"
	"github.com/osm-gitops/osm-gitops/pkg/inspect/trace"
	"github.com/osm-gitops/osm-gitops/pkg/render"
)

// outputIntoto is the value of --output for statements of in-toto.
const outputIntoto = "intoto"

// printStatements prints what there is to state about a node, one statement in a line.
func printStatements(ctx context.Context, out io.Writer, from trace.Clusters, t *tracing) error {
	return eachStatement(ctx, from, t, func(text []byte) error {
		_, err := fmt.Fprintf(out, "%s\n", text)
		return err
	})
}

// signedBy prints statements signed by the key in a file, each in a DSSE envelope.
func signedBy(file string) (traceOutput, error) {
	text, err := os.ReadFile(file) //nolint:gosec // the operator names it
	if err != nil {
		return nil, fmt.Errorf("--sign: %w", err)
	}
	key, err := attestation.ParseKey(text)
	if err != nil {
		return nil, fmt.Errorf("--sign: %s: %w", file, err)
	}
	return func(ctx context.Context, out io.Writer, from trace.Clusters, t *tracing) error {
		return eachStatement(ctx, from, t, func(text []byte) error {
			envelope, err := key.Sign(ctx, text)
			if err == nil {
				_, err = fmt.Fprintf(out, "%s\n", envelope)
			}
			return err
		})
	}, nil
}

// eachStatement makes the statements about the node of a trail.
func eachStatement(ctx context.Context, from trace.Clusters, t *tracing, do func([]byte) error) error {
	switch {
	case t.Node == nil:
		return misusef("osm-gitops trace node/NAME -o "+outputIntoto, "%s is no node: statements are about nodes", t.Asked)
	case t.Node.Provenance == "":
		return fmt.Errorf("node %s has no NodeProvenance yet, which the controller writes when it has joined: nothing is stated without one", t.Node.Name)
	}
	var np api.NodeProvenance
	if err := from.Worker.Get(ctx, client.ObjectKey{Name: t.Node.Provenance}, &np); err != nil {
		return fmt.Errorf("reading NodeProvenance %s: %w", t.Node.Provenance, err)
	}
	n := attestation.Node{Provenance: &np}
	pool := types.NamespacedName{Namespace: np.Spec.Pool.Namespace, Name: np.Spec.Pool.Name}
	if c := np.Spec.Configuration; c != nil {
		kept, err := from.Record(ctx, pool, c.InputDigest)
		if err != nil {
			return err
		}
		n.Provisioning, n.Bootstrap = kept.Record, kept.Record
		if b := np.Spec.Bootstrap; b != nil && b.InputDigest != c.InputDigest {
			if kept, err = from.Record(ctx, pool, b.InputDigest); err != nil {
				return err
			}
			n.Bootstrap = kept.Record
		}
	}
	statements, err := attestation.Statements(n)
	if err != nil {
		return err
	}
	if np.Spec.Configuration != nil {
		for _, rec := range []render.Record{n.Provisioning, n.Bootstrap} {
			if err := rendersTo(ctx, from, pool, rec); err != nil {
				return fmt.Errorf("node %s: nothing is stated: %w", np.Spec.Node.Name, err)
			}
		}
	}
	for _, text := range statements {
		if err := do(text); err != nil {
			return err
		}
	}
	return nil
}

// rendersTo refuses a record with other digests of documents than what is recorded renders
// to: its own digest is of what was rendered, not of what came of it. Where another engine
// made it, or the profile or the settings are not there any more, nothing can be told.
func rendersTo(ctx context.Context, from trace.Clusters, pool types.NamespacedName, rec render.Record) error {
	if rec.Engine != render.EngineVersion {
		return nil
	}
	in, err := from.Generation(ctx, pool, rec.Digests.Input)
	var missing *trace.NotFoundError
	if errors.As(err, &missing) {
		return nil
	}
	if err != nil {
		return err
	}
	out, err := render.NewEngine().Render(in)
	if err != nil {
		return err
	}
	if got := out.Record.Digests; got != rec.Digests {
		return fmt.Errorf("the record of configuration %s has other digests than what it renders to: ask osm-gitops verify what differs", rec.Digests.Input)
	}
	return nil
}
