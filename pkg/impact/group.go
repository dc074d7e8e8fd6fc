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

// poolGroup contains pools that differ only in their names, and change from one version to
// another.
type poolGroup struct {
	was, is           choice
	members           []int
	longest, shortest int // by name
}

// comparePools returns the result of every pool. Pools that differ only in their names are
// rendered once, with the longest name, since the name counts for the size limit.
func (c Comparison) comparePools(ctx context.Context, before, after *revision) ([]result, error) {
	out := make([]result, len(c.Snapshot.Pools))
	groups := map[string]*poolGroup{}
	for i, p := range c.Snapshot.Pools {
		var was, is choice
		if out[i], was, is = c.resolvePool(p, before, after); out[i].isDecided() {
			continue
		}
		key, err := groupKey(ctx, i, p, was, is)
		if err != nil {
			return nil, err
		}
		g := getOrInsert(groups, key, poolGroup{was: was, is: is, longest: i, shortest: i})
		g.members = append(g.members, i)
		if n := nameBytes(p); n > nameBytes(c.Snapshot.Pools[g.longest]) {
			g.longest = i
		} else if n < nameBytes(c.Snapshot.Pools[g.shortest]) {
			g.shortest = i
		}
	}
	all, ctx := errgroup.WithContext(ctx)
	all.SetLimit(runtime.GOMAXPROCS(0))
	for _, g := range groups {
		all.Go(func() error { return c.comparePoolGroup(ctx, g, out) })
	}
	return out, all.Wait()
}

func nameBytes(p Pool) int { return len(p.Inputs.Name) + len(p.Inputs.Namespace) }

// comparePoolGroup sets the results of pools that differ only in their names.
func (c Comparison) comparePoolGroup(ctx context.Context, g *poolGroup, out []result) error {
	one := func(i int) error {
		if err := ctx.Err(); err != nil {
			return err
		}
		return c.compareRenderings(ctx, c.Snapshot.Pools[i], g.was, g.is, &out[i])
	}
	if err := one(g.longest); err != nil {
		return err
	}
	if out[g.longest].rejection != "" && g.shortest != g.longest {
		// A shorter name may be within the limit.
		if err := one(g.shortest); err != nil {
			return err
		}
		if out[g.shortest].rejection == "" {
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
		out[i].rejection = of.rejection
		out[i].before = of.before
		out[i].from = of.from
		out[i].files = of.files
		out[i].fold = of.fold
		out[i].affected.UserData = of.affected.UserData
	}
	return nil
}

// groupKey is equal for pools that get the same content apart from their names.
func groupKey(ctx context.Context, i int, p Pool, was, is choice) (string, error) {
	versions := []identity{}
	for _, c := range []choice{was, is} {
		if c.from == nil {
			continue
		}
		prof, err := c.readProfile(ctx)
		if err != nil {
			return "", err
		}
		versions = append(versions, identity{prof.Provenance.Profile, fmt.Sprint(prof.Provenance.Version, c.builtin), prof.Digest})
		if !c.from.onlyPrintsPoolName(prof) {
			return fmt.Sprint("pool ", i), nil
		}
	}
	p.Inputs.Name, p.Inputs.Namespace = "", ""
	inputs, err := json.Marshal(p.Inputs)
	if err != nil {
		return "", fmt.Errorf("encoding the facts of a pool: %w", err)
	}
	return fmt.Sprintf("%q %q %q %s", versions, p.Settings, p.SecretName, inputs), nil
}

// printed matches actions of a template that print what depends on the pool's name, without
// conditions on it.
var printed = regexp.MustCompile(`\{\{-? *\$?\.(?:BootstrapKubeconfig)?SecretName *-?\}\}`)

// onlyPrintsPoolName reports whether a profile only prints the pool's name. Templates see it in the
// names of Secrets; they cannot see the digest, which depends on everything.
func (s *versionIndex) onlyPrintsPoolName(p render.Profile) bool {
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
