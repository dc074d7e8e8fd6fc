package ui

import (
	"context"
	"sync"
	"time"

	"golang.org/x/sync/semaphore"
	expiring "k8s.io/apimachinery/pkg/util/cache"

	"github.com/osm-gitops/osm-gitops/pkg/inspect/trace"
	"github.com/osm-gitops/osm-gitops/pkg/inspect/ui/internal/view"
	"github.com/osm-gitops/osm-gitops/pkg/inspect/verify"
	"github.com/osm-gitops/osm-gitops/pkg/redact"
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

type verificationCache struct {
	once    sync.Once
	cache   *expiring.LRUExpireCache // values are *Verification
	running *semaphore.Weighted      // one at a time
}

// verificationKey returns the cache key of a node, which differs from that of an earlier node with
// its name, and of its earlier provenance.
func verificationKey(name string, t *trace.Result) string {
	key := name + "\n" + t.InputDigest
	if t.Node != nil {
		key += "\n" + string(t.Node.UID)
	}
	return key
}

// getVerification returns the cached verification of a node; nil if there is none. With now, it
// verifies the node instead.
func (s *Server) getVerification(ctx context.Context, name string, t *trace.Result, now bool) *view.Verification {
	key := verificationKey(name, t)
	v := &s.verifying
	v.once.Do(func() {
		v.running = semaphore.NewWeighted(1)
		v.cache = expiring.NewLRUExpireCacheWithClock(maxCached, s.Clock)
	})
	if !now {
		if have, ok := v.cache.Get(key); ok {
			return have.(*view.Verification)
		}
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, verifyTime)
	defer cancel()
	if v.running.Acquire(ctx, 1) != nil {
		return &view.Verification{At: s.Clock.Now(), Error: "Others are being verified. Try again."}
	}
	defer v.running.Release(1)
	report, err := s.Verifier.Node(ctx, name)
	made := &view.Verification{At: s.Clock.Now(), Report: report}
	if err != nil {
		made.Report, made.Error = nil, redact.PrintableText(err.Error(), redact.MaxMessage)
	}
	if ctx.Err() != nil { // canceled, which proves nothing about the node
		return made
	}
	v.cache.Add(key, made, verifyCacheTime)
	return made
}
