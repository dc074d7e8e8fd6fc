package verify

import (
	"context"
	"errors"
	"fmt"
	"path"
	"slices"

	api "github.com/osm-gitops/osm-gitops/pkg/api/gitops/v1alpha1"
	"github.com/osm-gitops/osm-gitops/pkg/profile"
	"github.com/osm-gitops/osm-gitops/pkg/profile/catalog"
	"github.com/osm-gitops/osm-gitops/pkg/profile/overlay"
	"github.com/osm-gitops/osm-gitops/pkg/redact"
	"github.com/osm-gitops/osm-gitops/pkg/source"
)

// origin is the state of a claim in the repository.
type origin struct {
	checks []Check
	// doc is the profile in the repository; nil if unknown.
	doc *profile.Document
	// version and author belong to the claim, once it was found.
	version catalog.Version
	author  source.Author
	found   bool
	// forged is set if the commit exists with other content, which proves that the record was
	// edited.
	forged *Difference
	// truth is the content of that commit; nil if it lacks the version.
	truth *profile.Document
	// baseless is set if the version is an overlay whose base was not found.
	baseless *overlay.MissingBaseError
	// witness is the commit that the profile's object names.
	witness string

	repository *repository
	before     *repository      // with the earlier path; nil if the path is the same
	line       *source.Snapshot // the followed history
}

// findAndCheckOrigin searches the repository for a claim.
func (v *Verifier) findAndCheckOrigin(ctx context.Context, s *target, what api.ProvenanceConfiguration) (*origin, error) {
	if v.isBuiltin(what) {
		return v.findBuiltinOrigin(ctx, what)
	}
	o := &origin{}
	check := Check{Thing: ThingRepository, Name: redact.PrintableLine(what.Repository)}
	r, why := v.findRepository(ctx, s, what)
	if why != "" {
		o.checks = append(o.checks, check.asUnproven("%s", why))
		return o, nil
	}
	o.repository = r
	if s.osp != nil {
		o.witness = s.osp.Annotations[api.AnnotationCommit]
	}
	check, err := o.searchRepository(ctx, what, check)
	if err != nil {
		return nil, err
	}
	if v.Repository == nil && (s.from == nil || s.from.Status.Repository != what.Repository) && check.Result == Agrees {
		check.Note += "; no ProfileSource follows this repository now"
	}
	o.checks = append(o.checks, check)
	signed, err := v.checkSignature(ctx, s, o, what)
	if err != nil {
		return nil, err
	}
	o.checks = append(o.checks, signed...)
	return o, nil
}

// isBuiltin reports whether the profile is built in.
func (v *Verifier) isBuiltin(what api.ProvenanceConfiguration) bool {
	return v.Builtin != nil && what.Commit == "" && what.Repository == v.Builtin.Repository && what.Repository != ""
}

// findBuiltinOrigin searches the profiles of this program for a version.
func (v *Verifier) findBuiltinOrigin(ctx context.Context, what api.ProvenanceConfiguration) (*origin, error) {
	check := Check{Thing: ThingRepository, Name: "the built-in profiles"}
	snap, err := v.Builtin.Read(ctx)
	if err != nil {
		return nil, err
	}
	ix := &catalog.Indexer{Check: v.Check, Builtin: v.Builtin}
	cat, err := ix.Catalog(ctx, snap)
	if err != nil {
		return nil, err
	}
	i := slices.IndexFunc(cat.Current, func(p catalog.Version) bool { return p.Name == what.Profile && p.Version == what.Version })
	switch {
	case i < 0:
		return &origin{checks: []Check{check.asUnproven("this program has another version of %q: use a release with %s", what.Profile, what.Version)}}, nil
	case cat.Current[i].Digest != what.ProfileDigest:
		d := newDifference("digest of "+what.Profile+" "+what.Version, 0, cat.Current[i].Digest, what.ProfileDigest)
		return &origin{forged: d, checks: []Check{check.asUnproven("this program has other content for %s %s", what.Profile, what.Version)}}, nil
	}
	doc, err := ix.Document(ctx, snap, cat.Current[i])
	if err != nil {
		return nil, err
	}
	check.Result, check.Note = Agrees, "this program has "+what.Profile+" "+what.Version
	return &origin{doc: &doc, version: cat.Current[i], found: true, checks: []Check{check}}, nil
}

// searchRepository searches the followed history for the claim, then the commit alone.
func (o *origin) searchRepository(ctx context.Context, what api.ProvenanceConfiguration, check Check) (Check, error) {
	r := o.repository
	line, err := r.readRevision(ctx, "")
	if err != nil && (!errors.Is(err, source.ErrNotFound) || !r.exists(ctx)) {
		return check.asUnproven("cannot be read: %s", redact.PrintableLine(err.Error())), ctx.Err()
	}
	commit, hasHistory := what.Commit, true
	if _, invalid := source.ParseCommit(commit); invalid != nil { // the revision of an artifact
		_, made := source.SplitRevision(commit)
		commit, hasHistory = string(made), false
	}
	if line != nil {
		o.line = line
		if !r.fromFlag && redact.PrintableLine(line.Repository) != what.Repository {
			return check.withDifference(newDifference("address", 0, what.Repository, line.Repository)), nil
		}
		if len(line.Line) == 0 && len(line.Files) > 0 {
			return check.asUnproven("a shallow or partial clone lacks the history: run git fetch --unshallow"), nil
		}
		if err := o.findInSnapshot(ctx, line, what, hasHistory); err != nil || o.found {
			return o.describeMatch(check, what), err
		}
		if err := o.findInClaimedFolder(ctx, what); err != nil || o.found {
			return o.describeMatch(check, what), err
		}
		if b := o.baseless; b != nil {
			return check.asUnproven("%s %s is an overlay on %q %s, which is neither in the repository nor built into this program: use a release that contains it", what.Profile, what.Version, b.Base.Profile, b.Base.Version), nil //nolint:nilerr // there is no error: both steps found nothing
		}
	}
	what.Commit = commit
	return o.distinguishRewriteFromForgery(ctx, what, hasHistory, check)
}

// describeMatch returns the check with the commit that was found.
func (o *origin) describeMatch(check Check, what api.ProvenanceConfiguration) Check {
	check.Result = Agrees
	check.Note = fmt.Sprintf("%s %s came with commit %s of %s, in %s", what.Profile, what.Version, o.version.Commit, o.repository.followedRevision(), redact.PrintableLine(o.version.Path))
	return check
}

// findInSnapshot searches the history of a snapshot for the claim, or without a history its content
// only.
func (o *origin) findInSnapshot(ctx context.Context, snap *source.Snapshot, what api.ProvenanceConfiguration, hasHistory bool) error {
	cat, err := o.repository.indexer.Catalog(ctx, snap)
	if err != nil {
		return err
	}
	for _, ref := range slices.Concat(cat.Rejected, cat.Skipped) {
		if missing, ok := errors.AsType[*overlay.MissingBaseError](ref); ref.Profile == what.Profile && ref.Version == what.Version && ok {
			o.baseless = missing
		}
	}
	for _, have := range cat.History[what.Profile] {
		if have.Version != what.Version {
			continue
		}
		o.version = have
		if have.Digest != what.ProfileDigest || hasHistory && string(have.Commit) != what.Commit {
			continue
		}
		doc, err := o.repository.indexer.Document(ctx, snap, have)
		if err != nil {
			return err
		}
		if o.author, err = catalog.ChangeOf(ctx, snap, have); err != nil {
			return err
		}
		o.doc, o.found = &doc, true
	}
	return nil
}

// findInClaimedFolder searches the folder of the claimed file at its commit, since the ProfileSource
// may have had another path then.
func (o *origin) findInClaimedFolder(ctx context.Context, what api.ProvenanceConfiguration) error {
	id, invalid := source.ParseCommit(what.Commit)
	r := o.repository.withFolder(path.Dir(what.Path))
	if r == nil || invalid != nil {
		return nil //nolint:nilerr // the revision of an artifact has no history
	}
	if on, err := o.line.FirstParentsContain(ctx, id); err != nil || !on {
		return err
	}
	snap, err := r.readRevision(ctx, what.Commit)
	if errors.Is(err, source.ErrNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	was, now := o.repository, o.version
	o.repository = r
	if err := o.findInSnapshot(ctx, snap, what, true); err != nil {
		return err
	}
	o.repository = was
	if o.found {
		o.before = r
	} else {
		o.version = now
	}
	return nil
}

// distinguishRewriteFromForgery distinguishes a rewritten history from an edited record: the content of a
// commit cannot change, so an existing commit decides.
func (o *origin) distinguishRewriteFromForgery(ctx context.Context, what api.ProvenanceConfiguration, hasHistory bool, check Check) (Check, error) {
	now, commit := o.version, what.Commit // of this version, in the followed history
	snap, err := o.repository.readRevision(ctx, commit)
	switch {
	case err != nil && ctx.Err() != nil:
		return check, err
	case (errors.Is(err, source.ErrNotFound) || errors.Is(err, source.ErrInvalid)) && now.Digest == what.ProfileDigest && string(now.Commit) == o.witness && o.witness != commit:
		// The object and the repository agree on another commit.
		o.forged = newDifference("commit of "+what.Profile+" "+what.Version, 0, o.witness, commit)
		check.Result = Agrees
		check.Note = what.Version + " came with commit " + o.witness + ", as the OperatingSystemProfile says"
		return check, nil
	case errors.Is(err, source.ErrNotFound) || errors.Is(err, source.ErrInvalid):
		return check.withDifference(o.describeLostCommit(what, now, "it is not in the repository")), nil
	case err != nil:
		if now.Name != "" { // another commit has this version, which is sufficient
			return check.withDifference(o.describeLostCommit(what, now, "it does not exist")), nil
		}
		return check.asUnproven("cannot be read: %s", redact.PrintableLine(err.Error())), nil
	}
	o.version = catalog.Version{}
	if err := o.findInSnapshot(ctx, snap, what, hasHistory); err != nil {
		return check, err
	}
	switch at := o.version; {
	case o.found:
		// The content is unchanged, but the commit is not in the followed history.
		if o.line == nil {
			return check.withDifference(newDifference("followed revision", 0, o.repository.followedRevision(), "")), nil
		}
		return check.withDifference(o.describeLostCommit(what, now, "it exists, but is no longer in the history of "+o.repository.followedRevision())), nil
	case at.Name == "" || at.Digest != what.ProfileDigest:
		if at.Name != "" {
			doc, err := o.repository.indexer.Document(ctx, snap, at)
			if err != nil {
				return check, err
			}
			o.truth = &doc
		}
		o.forged = newDifference(fmt.Sprintf("content of %s %s at commit %s", what.Profile, what.Version, commit), 0, at.Digest, what.ProfileDigest)
	default:
		o.forged = newDifference("commit of "+what.Profile+" "+what.Version, 0, string(at.Commit), what.Commit)
	}
	check.Result, check.Note = Agrees, "commit "+commit+" exists with content that differs from the record"
	return check, nil
}

// describeLostCommit describes what happened to a commit.
func (o *origin) describeLostCommit(what api.ProvenanceConfiguration, now catalog.Version, how string) *Difference {
	found := how
	switch {
	case now.Name == "":
		found += fmt.Sprintf("; %s has no version %s of it", o.repository.followedRevision(), what.Version)
	case now.Digest != what.ProfileDigest:
		found += fmt.Sprintf("; %s came with commit %s instead, with other content (digest %s)", what.Version, now.Commit, now.Digest)
	case string(now.Commit) != what.Commit:
		found += fmt.Sprintf("; %s came with commit %s instead, with the same content", what.Version, now.Commit)
	}
	return newDifference("commit of "+what.Profile+" "+what.Version, 0, what.Commit, found)
}

// compareSelectedBy compares the commit that allegedly made the claimed version current with the
// repository; nil if it did. Artifacts have no such commit.
func (o *origin) compareSelectedBy(ctx context.Context, what api.ProvenanceConfiguration, at, selected string) (*Difference, error) {
	if _, invalid := source.ParseCommit(what.Commit); !o.found || invalid != nil {
		return nil, nil //nolint:nilerr // the revision of an artifact, or empty
	}
	if selected == "" && what.SelectedBy == "" {
		return nil, nil
	}
	ok, err := o.isSelectedBy(ctx, what, selected)
	if err != nil || ok {
		return nil, err
	}
	return newDifference(at, 0, "a commit that made "+what.Version+" current", selected), nil
}

// isSelectedBy reports whether a commit made the claimed version current or, as with a pin,
// introduced it.
func (o *origin) isSelectedBy(ctx context.Context, what api.ProvenanceConfiguration, selected string) (bool, error) {
	if selected == string(o.version.Commit) {
		return true, nil
	}
	id, invalid := source.ParseCommit(selected)
	if invalid != nil || o.line == nil {
		return false, nil //nolint:nilerr // an invalid commit selects nothing
	}
	if on, err := o.line.FirstParentsContain(ctx, id); err != nil || !on {
		return false, err
	}
	for _, r := range []*repository{o.repository, o.before} {
		if r == nil {
			continue
		}
		snap, err := r.readRevision(ctx, selected)
		if errors.Is(err, source.ErrNotFound) {
			continue // the folder did not exist
		}
		if err != nil {
			return false, err
		}
		cat, err := r.indexer.Catalog(ctx, snap)
		if err != nil {
			return false, err
		}
		if slices.ContainsFunc(cat.Current, func(p catalog.Version) bool {
			return p.Name == what.Profile && p.Version == what.Version && p.Digest == what.ProfileDigest && p.SelectedBy == id
		}) {
			return true, nil
		}
	}
	return false, nil
}
