package ui

import (
	"context"
	"sync"
	"time"

	"golang.org/x/sync/semaphore"
	"k8s.io/utils/lru"

	"github.com/osm-gitops/osm-gitops/pkg/inspect/trace"
	"github.com/osm-gitops/osm-gitops/pkg/inspect/verify"
)

// Verifier proves where a node comes from, which takes its repository.
type Verifier interface {
	Node(ctx context.Context, name string) (*verify.Report, error)
}

// Verifications are for few at a time, and kept for a while.
const (
	verifyTime = 90 * time.Second
	verifyKept = 10 * time.Minute
	maxKept    = 256
)

// verifying holds what was verified.
type verifying struct {
	once sync.Once
	kept *lru.Cache          // of *Verification
	turn *semaphore.Weighted // one at a time
}

// keyOf tells a node from one that had its name before, and from what it was said to be
// provisioned from before.
func keyOf(name string, t *trace.Trail) string {
	key := name + "\n" + t.InputDigest
	if t.Node != nil {
		key += "\n" + string(t.Node.UID)
	}
	return key
}

// verification is what is known of a node; where now is set, it is verified first.
func (s *Server) verification(ctx context.Context, name string, t *trace.Trail, now bool) *Verification {
	key := keyOf(name, t)
	v := &s.verifying
	v.once.Do(func() {
		v.turn = semaphore.NewWeighted(1)
		v.kept = lru.New(maxKept)
	})
	if !now {
		if have, ok := v.kept.Get(key); ok && s.Clock.Since(have.(*Verification).At) <= verifyKept {
			return have.(*Verification)
		}
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, verifyTime)
	defer cancel()
	if v.turn.Acquire(ctx, 1) != nil {
		return &Verification{At: s.Clock.Now(), Error: "Others are being verified. Try again."}
	}
	defer v.turn.Release(1)
	report, err := s.Verifier.Node(ctx, name)
	made := &Verification{At: s.Clock.Now(), Report: report}
	if err != nil {
		made.Report, made.Error = nil, text(err.Error())
	}
	if ctx.Err() != nil { // given up, which says nothing of the node
		return made
	}
	v.kept.Add(key, made)
	return made
}
