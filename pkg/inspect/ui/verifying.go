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

// Verifier proves the origin of a node, for which it reads the repository.
type Verifier interface {
	Node(ctx context.Context, name string) (*verify.Report, error)
}

// Bounds of concurrent verifications and of their cache.
const (
	verifyTime      = 90 * time.Second
	verifyCacheTime = 10 * time.Minute
	maxCached       = 256
)

// verifying caches verifications.
type verifying struct {
	once    sync.Once
	cache   *lru.Cache          // values are *Verification
	running *semaphore.Weighted // one at a time
}

// keyOf distinguishes a node from an earlier one with its name, and from its earlier
// provenance.
func keyOf(name string, t *trace.Result) string {
	key := name + "\n" + t.InputDigest
	if t.Node != nil {
		key += "\n" + string(t.Node.UID)
	}
	return key
}

// verification returns the cached verification of a node; with now, it verifies first.
func (s *Server) verification(ctx context.Context, name string, t *trace.Result, now bool) *Verification {
	key := keyOf(name, t)
	v := &s.verifying
	v.once.Do(func() {
		v.running = semaphore.NewWeighted(1)
		v.cache = lru.New(maxCached)
	})
	if !now {
		if have, ok := v.cache.Get(key); ok && s.Clock.Since(have.(*Verification).At) <= verifyCacheTime {
			return have.(*Verification)
		}
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, verifyTime)
	defer cancel()
	if v.running.Acquire(ctx, 1) != nil {
		return &Verification{At: s.Clock.Now(), Error: "Others are being verified. Try again."}
	}
	defer v.running.Release(1)
	report, err := s.Verifier.Node(ctx, name)
	made := &Verification{At: s.Clock.Now(), Report: report}
	if err != nil {
		made.Report, made.Error = nil, text(err.Error())
	}
	if ctx.Err() != nil { // canceled, which proves nothing about the node
		return made
	}
	v.cache.Add(key, made)
	return made
}
