package impact

import (
	"context"
	"encoding/json"
	"fmt"
	"regexp"
	"runtime"
	"strings"

	"golang.org/x/sync/errgroup"

	"github.com/osm-gitops/osm-gitops/pkg/render"
)

// group are pools that differ in their names alone, and go from one version to another.
type group struct {
	was, is           choice
	members           []int
	longest, shortest int // by name
}

// results says for every pool what becomes of it. Pools that differ in their names alone
// are rendered once, as the one with the longest name, since a name takes room.
func (c Comparison) results(ctx context.Context, before, after *revision) ([]result, error) {
	out := make([]result, len(c.Fleet.Pools))
	groups := map[string]*group{}
	for i, p := range c.Fleet.Pools {
		var was, is choice
		if out[i], was, is = c.pool(p, before, after); out[i].settled() {
			continue
		}
		key, err := groupKey(ctx, i, p, was, is)
		if err != nil {
			return nil, err
		}
		g := entry(groups, key, group{was: was, is: is, longest: i, shortest: i})
		g.members = append(g.members, i)
		if n := nameBytes(p); n > nameBytes(c.Fleet.Pools[g.longest]) {
			g.longest = i
		} else if n < nameBytes(c.Fleet.Pools[g.shortest]) {
			g.shortest = i
		}
	}
	all, ctx := errgroup.WithContext(ctx)
	all.SetLimit(runtime.GOMAXPROCS(0))
	for _, g := range groups {
		all.Go(func() error { return c.group(ctx, g, out) })
	}
	return out, all.Wait()
}

func nameBytes(p Pool) int { return len(p.Facts.Name) + len(p.Facts.Namespace) }

// group fills in the results of pools that differ in their names alone.
func (c Comparison) group(ctx context.Context, g *group, out []result) error {
	one := func(i int) error {
		if err := ctx.Err(); err != nil {
			return err
		}
		return c.render(ctx, c.Fleet.Pools[i], g.was, g.is, &out[i])
	}
	if err := one(g.longest); err != nil {
		return err
	}
	if out[g.longest].refusal != "" && g.shortest != g.longest {
		// A shorter name may be all it takes.
		if err := one(g.shortest); err != nil {
			return err
		}
		if out[g.shortest].refusal == "" {
			for _, i := range g.members {
				if err := one(i); err != nil {
					return err
				}
			}
			return nil
		}
	}
	of := out[g.longest]
	for _, i := range g.members {
		out[i].refusal, out[i].before, out[i].from, out[i].files, out[i].fold = of.refusal, of.before, of.from, of.files, of.fold
		out[i].affected.UserData = of.affected.UserData
	}
	return nil
}

// groupKey is equal for pools that get the same but for their names.
func groupKey(ctx context.Context, i int, p Pool, was, is choice) (string, error) {
	versions := []identity{}
	for _, c := range []choice{was, is} {
		if c.from == nil {
			continue
		}
		prof, err := c.profile(ctx)
		if err != nil {
			return "", err
		}
		versions = append(versions, identity{prof.Provenance.Profile, fmt.Sprint(prof.Provenance.Version, c.builtin), prof.Digest})
		if !c.from.opaque(prof) {
			return fmt.Sprint("pool ", i), nil
		}
	}
	p.Facts.Name, p.Facts.Namespace = "", ""
	facts, err := json.Marshal(p.Facts)
	if err != nil {
		return "", fmt.Errorf("encoding the facts of a pool: %w", err)
	}
	return fmt.Sprintf("%q %q %q %s", versions, p.Settings, p.SecretName, facts), nil
}

// printed is how a template puts into a text what depends on the pool's name, and asks
// nothing about it.
var printed = regexp.MustCompile(`\{\{-? *\$?\.(?:BootstrapKubeconfig)?SecretName *-?\}\}`)

// opaque reports whether a profile does no more with the pool's name than print it. The
// Secrets' names are what templates get of it; of the digest, which depends on
// everything, nobody can ask anything.
func (s *shelf) opaque(p render.Profile) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if known, ok := s.plain[p.Digest]; ok {
		return known
	}
	text, err := json.Marshal(p.Spec)
	rest := printed.ReplaceAllString(string(text), "")
	plain := err == nil && !strings.Contains(rest, "SecretName")
	s.plain[p.Digest] = plain
	return plain
}
