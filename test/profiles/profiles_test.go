// Package profiles_test renders every profile of this repository for each of its providers and for
// every supported kubelet, in combinations of settings that cover every pair of values, and checks
// the resulting nodes' files with third-party programs: shellcheck, systemd, cloud-init, the
// kubelet's own types.
//
// Start with TestMatrix. The combinations are those of pkg/lint/matrix, node_test.go reads
// documents; every other file is one kind of check.
package profiles_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	osm "github.com/osm-gitops/osm-gitops/pkg/api/osm/v1alpha1"
	"github.com/osm-gitops/osm-gitops/pkg/lint/matrix"
	"github.com/osm-gitops/osm-gitops/pkg/profile"
	"github.com/osm-gitops/osm-gitops/pkg/render"
)

const root = "../.."

// shippedDir has the profiles that are part of the binary, examplesDir those that
// show how to write one.
const (
	shippedDir  = "profiles"
	examplesDir = "examples/repository/profiles"
)

// rendering is one combination with what came of it.
type rendering struct {
	// name says which: the profile and the values.
	name    string
	profile profile.Document
	// shipped profiles have to do everything that those of operating-system-manager do.
	shipped bool
	values  map[string]string
	in      render.Input
	out     *render.Output
	// bootstrap and provisioning are the documents as a node reads them.
	bootstrap, provisioning *stage
}

// TestMatrix: every profile renders in every combination; each of its providers meets
// each kubelet, and any two values of any two other dimensions meet as well.
func TestMatrix(t *testing.T) {
	all := renderings(t)
	var failed report
	for _, err := range corpus.errs {
		failed.add(err.err.Error(), err.in)
	}
	failed.fail(t)
	count := map[string]int{}
	met := map[[5]string]bool{}
	for _, r := range all {
		count[r.profile.Name]++
		for a, v := range r.values {
			for b, w := range r.values {
				met[[5]string{r.profile.Name, a, v, b, w}] = true
			}
		}
	}
	for _, doc := range profiles(t) {
		dims := matrix.Dimensions(doc)
		if got, want := len(dims[0].Values)*len(dims[1].Values), len(doc.Spec.SupportedCloudProviders)*4; got != want || want == 0 {
			t.Errorf("%s: %d combinations of provider and kubelet, want %d", doc.Path, got, want)
		}
		var missing report
		for i, a := range dims {
			for _, b := range dims[:i] {
				for _, v := range a.Values {
					for _, w := range b.Values {
						if !met[[5]string{doc.Name, a.Name, v.Name, b.Name, w.Name}] {
							missing.add(fmt.Sprintf("%s %s never meets %s %s", a.Name, v.Name, b.Name, w.Name), doc.Name+" any combination")
						}
					}
				}
			}
		}
		missing.fail(t)
	}
	t.Logf("%d combinations of %v, rendered and read in %s", len(all), count, corpus.took.Round(time.Millisecond))
}

// TestNames: a shipped profile's file is called like it.
func TestNames(t *testing.T) {
	for _, doc := range profiles(t) {
		if want := strings.TrimSuffix(filepath.Base(doc.Path), ".yaml"); doc.Name != want {
			t.Errorf("%s holds profile %q: call them alike", doc.Path, doc.Name)
		}
		if err := render.NewEngine().Check(matrix.Profile(doc, render.Provenance{})); err != nil {
			t.Errorf("%s: %v", doc.Path, err)
		}
	}
}

func isShipped(doc profile.Document) bool { return filepath.Dir(doc.Path) == shippedDir }

// profiles reads every profile of the repository.
func profiles(t testing.TB) []profile.Document {
	t.Helper()
	var out []profile.Document
	for _, dir := range []string{shippedDir, examplesDir} {
		paths, err := filepath.Glob(filepath.Join(root, dir, "*.yaml"))
		if err != nil || len(paths) == 0 {
			t.Fatalf("found %d profiles in %s (err %v): an empty glob must not pass", len(paths), dir, err)
		}
		for _, path := range paths {
			b, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			docs, err := profile.Decode(filepath.Join(dir, filepath.Base(path)), b)
			if err != nil {
				t.Fatal(err)
			}
			out = append(out, docs...)
		}
	}
	return out
}

// corpus is rendered once for all tests; it is only read afterwards.
var corpus struct {
	sync.Once
	all  []*rendering
	errs []*renderError
	took time.Duration
}

// renderings returns all combinations that render. TestMatrix fails for the others.
func renderings(t testing.TB) []*rendering {
	t.Helper()
	docs := profiles(t)
	corpus.Do(func() {
		start, engine := time.Now(), render.NewEngine()
		var wg sync.WaitGroup
		var mu sync.Mutex
		for _, doc := range docs {
			wg.Go(func() {
				all, errs := renderAll(engine, doc)
				mu.Lock()
				defer mu.Unlock()
				corpus.all, corpus.errs = append(corpus.all, all...), append(corpus.errs, errs...)
			})
		}
		wg.Wait()
		slices.SortFunc(corpus.all, func(a, b *rendering) int { return strings.Compare(a.name, b.name) })
		corpus.took = time.Since(start)
	})
	if len(corpus.all) == 0 {
		t.Fatalf("nothing was rendered: %v", corpus.errs)
	}
	return corpus.all
}

// renderError is a combination that does not render.
type renderError struct {
	in  string
	err error
}

func (e *renderError) String() string { return e.in + ": " + e.err.Error() }

func renderAll(engine *render.Engine, doc profile.Document) (all []*rendering, errs []*renderError) {
	dims := matrix.Dimensions(doc)
	sizes := make([]int, len(dims))
	for i, d := range dims {
		sizes[i] = len(d.Values)
	}
	for _, row := range matrix.Pairwise(sizes) {
		r := &rendering{profile: doc, shipped: isShipped(doc), values: map[string]string{}}
		c := matrix.New(doc)
		words := []string{doc.Name}
		for i, d := range dims {
			v := d.Values[row[i]]
			r.values[d.Name] = v.Name
			if v.Apply != nil {
				v.Apply(c)
			}
			if row[i] > 0 || d.Name == matrix.Provider || d.Name == matrix.Kubelet {
				words = append(words, d.Name+"="+v.Name)
			}
		}
		r.name = strings.Join(words, " ")
		if err := r.render(engine, c); err != nil {
			errs = append(errs, &renderError{in: r.name, err: err})
			continue
		}
		all = append(all, r)
	}
	return all, errs
}

func (r *rendering) render(engine *render.Engine, c *matrix.Combination) error {
	in, err := c.Input()
	if err != nil {
		return err
	}
	out, err := engine.Render(in)
	if err != nil {
		return err
	}
	r.in, r.out = in, out
	if r.bootstrap, err = parse(out.Bootstrap); err != nil {
		return fmt.Errorf("its bootstrap document: %w", err)
	}
	if r.provisioning, err = parse(out.Provisioning); err != nil {
		return fmt.Errorf("its provisioning document: %w", err)
	}
	return nil
}

// stages are both documents by their names.
func (r *rendering) stages() map[string]*stage {
	return map[string]*stage{"bootstrap": r.bootstrap, "provisioning": r.provisioning}
}

// node is what a machine holds after both stages.
func (r *rendering) node() map[string]file {
	all := map[string]file{}
	for _, s := range []*stage{r.bootstrap, r.provisioning} {
		for path, f := range s.nodeFiles() {
			all[path] = f
		}
	}
	return all
}

// coreOS reports whether Flatcar reads the documents, which writes units itself.
func (r *rendering) coreOS() bool { return r.profile.Spec.OSName == osm.OperatingSystemFlatcar }

// anonymous removes the parts of a text that differ in all combinations, so that equal texts are
// checked once.
func (r *rendering) anonymous(text string) string {
	short := r.configDigest()
	return strings.NewReplacer(short, "0123456789ab", r.in.Profile.Provenance.Commit, "").Replace(text)
}

// distinct are equal contents with the first combination that has them.
type distinct[T any] struct {
	seen map[string]int
	list []found[T]
}

type found[T any] struct {
	what T
	in   string
}

// add adds a value unless one with the same key exists.
func (d *distinct[T]) add(key string, what T, in string) {
	if d.seen == nil {
		d.seen = map[string]int{}
	}
	if _, ok := d.seen[key]; ok {
		return
	}
	d.seen[key] = len(d.list)
	d.list = append(d.list, found[T]{what, in})
}
