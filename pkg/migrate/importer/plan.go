package importer

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"
	"sigs.k8s.io/yaml"

	api "github.com/osm-gitops/osm-gitops/pkg/api/gitops/v1alpha1"
	osm "github.com/osm-gitops/osm-gitops/pkg/api/osm/v1alpha1"
	"github.com/osm-gitops/osm-gitops/pkg/lint/matrix"
	"github.com/osm-gitops/osm-gitops/pkg/migrate/importer/internal/profileyaml"
	"github.com/osm-gitops/osm-gitops/pkg/migrate/importer/manifest"
	"github.com/osm-gitops/osm-gitops/pkg/profile"
	"github.com/osm-gitops/osm-gitops/pkg/profile/strictyaml"
	"github.com/osm-gitops/osm-gitops/pkg/render"
)

// Folders of a repository in the paths of Plan.Files.
const (
	// ProfilesDir is the folder that a ProfileSource reads.
	ProfilesDir = "profiles"
	// PoolsDir contains the pools without their credentials, for `osm-gitops diff`.
	PoolsDir = "pools"
	// RejectedDir contains profiles that a ProfileSource would reject, to be fixed and moved.
	RejectedDir = "refused"
)

// Action is the result for a profile.
type Action string

// Results for a profile.
const (
	// ActionCopy is a file with the whole profile.
	ActionCopy Action = "copy"
	// ActionOverlay is a ProfileOverlay on another profile.
	ActionOverlay Action = "overlay"
	// ActionNone is a profile that needs no file.
	ActionNone Action = "left out"
	// ActionRejected is a profile that osm-gitops rejects; its file is in RejectedDir.
	ActionRejected Action = "refused"
	// ActionOtherNamespace is a profile of another namespace.
	ActionOtherNamespace Action = "not taken"
)

// Outcome is the result for one profile.
type Outcome struct {
	Name      string `json:"name"`
	Namespace string `json:"namespace,omitempty"`
	Version   string `json:"version"`
	Action    Action `json:"action"`
	// Path of its file, empty if there is none.
	Path string `json:"path,omitempty"`
	// Base of an overlay, "<profile> <version>".
	Base string `json:"base,omitempty"`
	// Why explains the result.
	Why string `json:"why"`
	// Source is the ProfileSource that created it, empty for none.
	Source string `json:"source,omitempty"`
	// Pools that use it, "namespace/name", sorted.
	Pools []string `json:"pools"`
	// Corrected are the fields whose value in the file differs from the object.
	Corrected []Correction `json:"corrected,omitempty"`
}

// Correction is a changed field that has the meaning in a file that it had for the
// reference in the object.
type Correction struct {
	Field string `json:"field"`
	From  string `json:"from"`
	To    string `json:"to"`
}

// RenderRejection is one error that makes osm-gitops reject an object.
type RenderRejection struct {
	// Object is its kind, namespace and name.
	Object string `json:"object"`
	// Field of the object.
	Field string `json:"field,omitempty"`
	// Line of Path, if that file was written.
	Line int    `json:"line,omitempty"`
	Path string `json:"path,omitempty"`
	// Where names the affected pools, empty for all.
	Where string `json:"where,omitempty"`
	// Message says what is wrong and what to do.
	Message string `json:"message"`
}

// Note reports something that was omitted, or that the user should know.
type Note struct {
	Object  string `json:"object"`
	Field   string `json:"field,omitempty"`
	Message string `json:"message"`
}

// Report is the result of an import, for people and programs.
type Report struct {
	Profiles []Outcome `json:"profiles"`
	// Rejected lists what osm-gitops rejects; the reference accepts most of it.
	Rejected []RenderRejection `json:"refused"`
	Notes    []Note            `json:"notes"`
}

// Plan is the content of the new repository.
type Plan struct {
	Report
	// Files by their path in the repository.
	Files map[string][]byte
}

// AllProfilesFromSources reports whether ProfileSources created all existing profiles, so that there is
// nothing to import.
func (r Report) AllProfilesFromSources() bool {
	for _, o := range r.Profiles {
		if o.Source == "" {
			return false
		}
	}
	return len(r.Profiles) > 0
}

// Input has the objects to import.
type Input struct {
	// Objects of the cluster: OperatingSystemProfiles and MachineDeployments. Notes name other
	// objects.
	Objects []manifest.Object
	// Namespace of the controller, and the default for objects.
	Namespace string
	// Builtin are the profiles of this program.
	Builtin []profile.Document
	// Settings of the controller, for rendering the pools; nil if unknown.
	Settings *render.Settings
}

// New plans the import of each profile. Errors of an object are part of the plan; New fails
// only if there is no plan at all.
func New(ctx context.Context, in Input) (*Plan, error) {
	a := &importPlan{in: in, engine: render.NewEngine(), plan: &Plan{Files: map[string][]byte{}}}
	a.plan.Profiles = []Outcome{}
	a.plan.Rejected = []RenderRejection{}
	a.plan.Notes = []Note{}
	a.classifyObjects()
	var candidates []*candidate
	for _, o := range a.profiles {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		if c := a.readCandidate(o); c != nil {
			candidates = append(candidates, c)
		}
	}
	// The defaults first, since others are copies of them.
	slices.SortStableFunc(candidates, func(x, y *candidate) int {
		return cmp.Or(cmp.Compare(x.defaultsFirstRank(), y.defaultsFirstRank()), cmp.Compare(x.doc.Name, y.doc.Name))
	})
	for _, c := range candidates {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		a.planProfileForm(c)
	}
	a.writeAndCheckPools()
	slices.SortFunc(a.plan.Profiles, func(x, y Outcome) int {
		return cmp.Or(cmp.Compare(x.Namespace, y.Namespace), cmp.Compare(x.Name, y.Name))
	})
	return a.plan, nil
}

// importPlan is one run of New.
type importPlan struct {
	in           Input
	engine       *render.Engine
	plan         *Plan
	profiles     []manifest.Object
	pools        []pool
	overlayBases []*candidate // possible bases for overlays of later ones
}

// candidate is a valid profile.
type candidate struct {
	object  manifest.Object
	doc     profile.Document
	out     Outcome
	comment string
	yaml    []byte
}

// defaultsFirstRank orders candidates: the reference's defaults before others.
func (c *candidate) defaultsFirstRank() int {
	if _, ok := referenceDefaults[c.doc.Name]; ok {
		return 0
	}
	return 1
}

// classifyObjects separates the objects into profiles and pools, each ordered by namespace and
// name.
func (a *importPlan) classifyObjects() {
	seen := map[string]bool{}
	others := map[string]int{}
	for _, o := range a.in.Objects {
		if !o.IsProfile() && !o.IsPool() {
			others[fmt.Sprintf("%s of %s", o.Kind(), manifest.Text(o.Content["apiVersion"]))]++
			continue
		}
		if o.Namespace() == "" {
			o = o.WithNamespace(a.in.Namespace)
		}
		if seen[o.String()] {
			a.addRejection(RenderRejection{Object: o.String(), Message: "is duplicated in " + o.From + ": the first was imported; remove one of them"})
			continue
		}
		seen[o.String()] = true
		if o.IsProfile() {
			a.profiles = append(a.profiles, o)
		} else {
			a.pools = append(a.pools, a.readPool(o))
		}
	}
	for _, kind := range slices.Sorted(maps.Keys(others)) {
		a.addNote(Note{Object: kind, Message: fmt.Sprintf("%d objects that are neither profiles nor pools: ignored", others[kind])})
	}
	byName := func(x, y manifest.Object) int { return strings.Compare(x.String(), y.String()) }
	slices.SortFunc(a.profiles, byName)
	slices.SortFunc(a.pools, func(x, y pool) int { return byName(x.object, y.object) })
}

func (a *importPlan) addRejection(r RenderRejection) { a.plan.Rejected = append(a.plan.Rejected, r) }
func (a *importPlan) addNote(n Note)                 { a.plan.Notes = append(a.plan.Notes, n) }

// readCandidate validates one object like a file. It returns nil if the object gets no file in
// ProfilesDir, after reporting why.
func (a *importPlan) readCandidate(o manifest.Object) *candidate {
	spec := manifest.Mapping(o.Content["spec"])
	out := Outcome{Name: o.Name(), Namespace: o.Namespace(), Version: manifest.Text(spec["version"]), Pools: a.poolsOf(o)}
	switch source := o.ProfileSourceName(); {
	case o.Namespace() != a.in.Namespace:
		out.Action = ActionOtherNamespace
		out.Why = fmt.Sprintf("is in namespace %s: run the import with --namespace %s for the controller there", o.Namespace(), o.Namespace())
		a.plan.Profiles = append(a.plan.Profiles, out)
		return nil
	case source != "":
		out.Action, out.Source = ActionNone, source
		out.Why = fmt.Sprintf("ProfileSource %s created it: it is already in Git, as profile %s", source, manifest.Text(manifest.Mapping(o.Metadata()["labels"])[api.LabelProfile]))
		a.plan.Profiles = append(a.plan.Profiles, out)
		return nil
	}
	c := &candidate{object: o, out: out, comment: "Imported from " + o.String() + "."}
	known, unknown := manifest.SplitUnknown(map[string]any{"spec": o.Content["spec"]}, reflect.TypeFor[osm.OperatingSystemProfile](), "")
	for _, f := range unknown {
		a.addNote(Note{Object: o.String(), Field: f, Message: "is not a field of a profile and has no effect: omitted"})
	}
	a.addMetadataNotes(o)
	a.correctModuleValues(c, known)
	if err := c.renderYAML(known); err != nil {
		a.addRejection(RenderRejection{Object: o.String(), Message: manifest.CutOff(err.Error())})
		return a.writeRejectedFile(c)
	}
	docs, err := profile.Decode(c.path(ProfilesDir), c.yaml)
	for _, p := range strictyaml.Problems(err) {
		a.addRejection(RenderRejection{Object: o.String(), Field: p.Field, Line: p.Line, Message: p.Err.Error()})
	}
	if err != nil || len(docs) != 1 {
		return a.writeRejectedFile(c)
	}
	c.doc = docs[0]
	problems := render.Problems(a.engine.Check(matrix.Profile(c.doc, render.Provenance{})))
	for _, p := range problems {
		a.addRejection(rejectionOf(o, p))
	}
	if len(problems) > 0 {
		return a.writeRejectedFile(c)
	}
	return c
}

// writeRejectedFile writes an invalid profile to a separate folder, so that the user can fix it.
func (a *importPlan) writeRejectedFile(c *candidate) *candidate {
	c.out.Action, c.out.Path = ActionRejected, c.path(RejectedDir)
	c.out.Why = "osm-gitops rejects it, see below: fix the file and move it to " + c.path(ProfilesDir)
	if len(c.yaml) > 0 {
		a.plan.Files[c.out.Path] = c.yaml
	} else {
		c.out.Path = ""
	}
	for i := range a.plan.Rejected {
		if r := &a.plan.Rejected[i]; r.Object == c.object.String() && r.Line > 0 {
			r.Path = c.out.Path
		}
	}
	a.plan.Profiles = append(a.plan.Profiles, c.out)
	return nil
}

func (c *candidate) path(dir string) string {
	name := c.object.Name()
	if len(validation.IsDNS1123Subdomain(name)) > 0 { // objects of a cluster have a valid name
		name = "unnamed"
	}
	return dir + "/" + name + ".yaml"
}

// renderYAML writes the file of a profile: in the form that people write if that preserves the
// content, otherwise with a library.
func (c *candidate) renderYAML(content any) error {
	plain, err := yaml.Marshal(map[string]any{
		"apiVersion": osm.GroupVersion.String(), "kind": "OperatingSystemProfile",
		"metadata": map[string]any{"name": c.object.Name()}, "spec": manifest.Mapping(content)["spec"],
	})
	if err != nil {
		return fmt.Errorf("writing it as YAML: %w", err)
	}
	c.yaml = plain
	docs, err := profile.Decode(c.path(ProfilesDir), plain)
	if err != nil || len(docs) != 1 {
		return nil //nolint:nilerr // the caller decodes the file and reports the error with its lines
	}
	nice := profileyaml.Write(c.comment, osm.GroupVersion.String(), "OperatingSystemProfile", c.object.Name(), docs[0].Spec)
	if again, err := profile.Decode(c.path(ProfilesDir), nice); err == nil && len(again) == 1 && again[0].Digest == docs[0].Digest {
		c.yaml = nice
	}
	return nil
}

// addMetadataNotes reports metadata of an object that its file omits, except what API servers
// add.
func (a *importPlan) addMetadataNotes(o manifest.Object) {
	serverFields := []string{"name", "namespace", "uid", "resourceVersion", "generation", "creationTimestamp", "managedFields", "selfLink", "deletionTimestamp", "deletionGracePeriodSeconds"}
	for _, key := range slices.Sorted(maps.Keys(o.Metadata())) {
		if slices.Contains(serverFields, key) {
			continue
		}
		names := slices.Sorted(maps.Keys(manifest.Mapping(o.Metadata()[key])))
		message := "omitted: objects of a ProfileSource have their own metadata"
		if len(names) > 0 {
			message = fmt.Sprintf("%s omitted: objects of a ProfileSource have their own metadata", joinFirst(names, 8))
		}
		if manager := detectApplier(names); manager != "" {
			message += "; " + manager + " applies this object: stop that after its pools use the repository"
		}
		a.addNote(Note{Object: o.String(), Field: "metadata." + key, Message: message})
	}
	for _, key := range slices.Sorted(maps.Keys(o.Content)) {
		if !slices.Contains([]string{"apiVersion", "kind", "metadata", "spec"}, key) {
			a.addNote(Note{Object: o.String(), Field: key, Message: "is not a field of a profile and has no effect: omitted"})
		}
	}
}

// detectApplier returns the tool that already applies an object from a repository, according to
// the labels and annotations of Flux, Argo CD and Helm.
func detectApplier(names []string) string {
	for _, name := range names {
		switch {
		case strings.HasPrefix(name, "kustomize.toolkit.fluxcd.io/"), strings.HasPrefix(name, "helm.toolkit.fluxcd.io/"):
			return "Flux"
		case strings.HasPrefix(name, "argocd.argoproj.io/"):
			return "Argo CD"
		case name == "meta.helm.sh/release-name":
			return "Helm"
		}
	}
	return ""
}

// rejectionOf attributes a rendering error to the object that has the field.
func rejectionOf(o manifest.Object, p *render.InvalidError) RenderRejection {
	message := p.Err.Error()
	if p.File != "" {
		message = fmt.Sprintf("%q: %s", p.File, message)
	}
	return RenderRejection{Object: o.String(), Field: p.Field, Line: p.Line, Message: message}
}
