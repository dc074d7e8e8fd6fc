package verify

import (
	"context"
	"errors"
	"fmt"
	"path"
	"slices"

	api "github.com/osm-gitops/osm-gitops/pkg/api/gitops/v1alpha1"
	"github.com/osm-gitops/osm-gitops/pkg/profile"
	"github.com/osm-gitops/osm-gitops/pkg/redact"
	"github.com/osm-gitops/osm-gitops/pkg/source"
)

// origin is the state of a claim in the repository.
type origin struct {
	checks []Check
	// doc is the profile in the repository; nil if unknown.
	doc *profile.Document
	// version and author belong to the claim, once it was found.
	version profile.Version
	author  source.Author
	found   bool
	// forged is set if the commit exists with other content, which proves that the record was
	// edited.
	forged *Difference
	// truth is the content of that commit; nil if it lacks the version.
	truth *profile.Document
	// baseless is set if the version is an overlay whose base was not found.
	baseless *profile.MissingBaseError
	// witness is the commit that the profile's object names.
	witness string

	repository *repository
	before     *repository      // with the earlier path; nil if the path is the same
	line       *source.Snapshot // the followed history
}

// origin searches the repository for a claim.
func (v *Verifier) origin(ctx context.Context, s *target, what claim) (*origin, error) {
	if v.isBuiltin(what) {
		return v.builtin(ctx, what)
	}
	o := &origin{}
	check := Check{Thing: ThingRepository, Name: redact.Clean(what.repository)}
	r, why := v.open(ctx, s, what)
	if why != "" {
		o.checks = append(o.checks, check.unproven("%s", why))
		return o, nil
	}
	o.repository = r
	if s.osp != nil {
		o.witness = s.osp.Annotations[api.AnnotationCommit]
	}
	check, err := o.ask(ctx, what, check)
	if err != nil {
		return nil, err
	}
	if v.Repository == nil && (s.from == nil || s.from.Status.Repository != what.repository) && check.Result == Agrees {
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
func (v *Verifier) isBuiltin(what claim) bool {
	return v.Builtin != nil && what.commit == "" && what.repository == v.Builtin.Repository && what.repository != ""
}

// builtin searches the profiles of this program for a version.
func (v *Verifier) builtin(ctx context.Context, what claim) (*origin, error) {
	check := Check{Thing: ThingRepository, Name: "the built-in profiles"}
	snap, err := v.Builtin.Read(ctx)
	if err != nil {
		return nil, err
	}
	ix := &profile.Indexer{Check: v.Check, Builtin: v.Builtin}
	cat, err := ix.Catalogue(ctx, snap)
	if err != nil {
		return nil, err
	}
	i := slices.IndexFunc(cat.Current, func(p profile.Version) bool { return p.Name == what.profile && p.Version == what.version })
	switch {
	case i < 0:
		return &origin{checks: []Check{check.unproven("this program has another version of %q: use a release with %s", what.profile, what.version)}}, nil
	case cat.Current[i].Digest != what.digest:
		d := differ("digest of "+what.profile+" "+what.version, 0, cat.Current[i].Digest, what.digest)
		return &origin{forged: d, checks: []Check{check.unproven("this program has other content for %s %s", what.profile, what.version)}}, nil
	}
	doc, err := ix.Document(ctx, snap, cat.Current[i])
	if err != nil {
		return nil, err
	}
	check.Result, check.Note = Agrees, "this program has "+what.profile+" "+what.version
	return &origin{doc: &doc, version: cat.Current[i], found: true, checks: []Check{check}}, nil
}

// ask searches the followed history for the claim, then the commit alone.
func (o *origin) ask(ctx context.Context, what claim, check Check) (Check, error) {
	r := o.repository
	line, err := r.at(ctx, "")
	if err != nil && (!errors.Is(err, source.ErrNotFound) || !r.exists(ctx)) {
		return check.unproven("cannot be read: %s", redact.Clean(err.Error())), ctx.Err()
	}
	commit, hasHistory := what.commit, true
	if _, invalid := source.ParseCommit(commit); invalid != nil { // the revision of an artifact
		_, made := source.SplitRevision(commit)
		commit, hasHistory = string(made), false
	}
	if line != nil {
		o.line = line
		if !r.fromFlag && redact.Clean(line.Repository) != what.repository {
			return check.with(differ("address", 0, what.repository, line.Repository)), nil
		}
		if len(line.Line) == 0 && len(line.Files) > 0 {
			return check.unproven("a shallow or partial clone lacks the history: run git fetch --unshallow"), nil
		}
		if err := o.find(ctx, line, what, hasHistory); err != nil || o.found {
			return o.summarize(check, what), err
		}
		if err := o.findBefore(ctx, what); err != nil || o.found {
			return o.summarize(check, what), err
		}
		if b := o.baseless; b != nil {
			return check.unproven("%s %s is an overlay on %q %s, which is neither in the repository nor built into this program: use a release that contains it", what.profile, what.version, b.Base.Profile, b.Base.Version), nil //nolint:nilerr // there is no error: both steps found nothing
		}
	}
	what.commit = commit
	return o.tellRewriteFromForgery(ctx, what, hasHistory, check)
}

// summarize completes the check after a successful search.
func (o *origin) summarize(check Check, what claim) Check {
	check.Result = Agrees
	check.Note = fmt.Sprintf("%s %s came with commit %s of %s, in %s", what.profile, what.version, o.version.Commit, o.repository.follows(), redact.Clean(o.version.Path))
	return check
}

// find searches the history of a snapshot for the claim, or without a history its content
// only.
func (o *origin) find(ctx context.Context, snap *source.Snapshot, what claim, hasHistory bool) error {
	cat, err := o.repository.indexer.Catalogue(ctx, snap)
	if err != nil {
		return err
	}
	for _, ref := range slices.Concat(cat.Rejected, cat.Skipped) {
		var missing *profile.MissingBaseError
		if ref.Profile == what.profile && ref.Version == what.version && errors.As(ref, &missing) {
			o.baseless = missing
		}
	}
	for _, have := range cat.History[what.profile] {
		if have.Version != what.version {
			continue
		}
		o.version = have
		if have.Digest != what.digest || hasHistory && string(have.Commit) != what.commit {
			continue
		}
		doc, err := o.repository.indexer.Document(ctx, snap, have)
		if err != nil {
			return err
		}
		if o.author, err = profile.ChangeOf(ctx, snap, have); err != nil {
			return err
		}
		o.doc, o.found = &doc, true
	}
	return nil
}

// findBefore searches the folder of the claimed file at its commit, since the ProfileSource
// may have had another path then.
func (o *origin) findBefore(ctx context.Context, what claim) error {
	id, invalid := source.ParseCommit(what.commit)
	r := o.repository.in(path.Dir(what.path))
	if r == nil || invalid != nil {
		return nil //nolint:nilerr // the revision of an artifact has no history
	}
	if on, err := o.line.Continues(ctx, id); err != nil || !on {
		return err
	}
	snap, err := r.at(ctx, what.commit)
	if errors.Is(err, source.ErrNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	was, now := o.repository, o.version
	o.repository = r
	if err := o.find(ctx, snap, what, true); err != nil {
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

// tellRewriteFromForgery distinguishes a rewritten history from an edited record: the content of a
// commit cannot change, so an existing commit decides.
func (o *origin) tellRewriteFromForgery(ctx context.Context, what claim, hasHistory bool, check Check) (Check, error) {
	now, commit := o.version, what.commit // of this version, in the followed history
	snap, err := o.repository.at(ctx, commit)
	switch {
	case err != nil && ctx.Err() != nil:
		return check, err
	case (errors.Is(err, source.ErrNotFound) || errors.Is(err, source.ErrInvalid)) && now.Digest == what.digest && string(now.Commit) == o.witness && o.witness != commit:
		// The object and the repository agree on another commit.
		o.forged = differ("commit of "+what.profile+" "+what.version, 0, o.witness, commit)
		check.Result, check.Note = Agrees, what.version+" came with commit "+o.witness+", as the OperatingSystemProfile says"
		return check, nil
	case errors.Is(err, source.ErrNotFound) || errors.Is(err, source.ErrInvalid):
		return check.with(o.describeLoss(what, now, "it is not in the repository")), nil
	case err != nil:
		if now.Name != "" { // another commit has this version, which is sufficient
			return check.with(o.describeLoss(what, now, "it does not exist")), nil
		}
		return check.unproven("cannot be read: %s", redact.Clean(err.Error())), nil
	}
	o.version = profile.Version{}
	if err := o.find(ctx, snap, what, hasHistory); err != nil {
		return check, err
	}
	switch at := o.version; {
	case o.found:
		// The content is unchanged, but the commit is not in the followed history.
		if o.line == nil {
			return check.with(differ("followed revision", 0, o.repository.follows(), "")), nil
		}
		return check.with(o.describeLoss(what, now, "it exists, but is no longer in the history of "+o.repository.follows())), nil
	case at.Name == "" || at.Digest != what.digest:
		if at.Name != "" {
			doc, err := o.repository.indexer.Document(ctx, snap, at)
			if err != nil {
				return check, err
			}
			o.truth = &doc
		}
		o.forged = differ(fmt.Sprintf("content of %s %s at commit %s", what.profile, what.version, commit), 0, at.Digest, what.digest)
	default:
		o.forged = differ("commit of "+what.profile+" "+what.version, 0, string(at.Commit), what.commit)
	}
	check.Result, check.Note = Agrees, "commit "+commit+" exists with content that differs from the record"
	return check, nil
}

// describeLoss describes what happened to a commit.
func (o *origin) describeLoss(what claim, now profile.Version, how string) *Difference {
	found := how
	switch {
	case now.Name == "":
		found += fmt.Sprintf("; %s has no version %s of it", o.repository.follows(), what.version)
	case now.Digest != what.digest:
		found += fmt.Sprintf("; %s came with commit %s instead, with other content (digest %s)", what.version, now.Commit, now.Digest)
	case string(now.Commit) != what.commit:
		found += fmt.Sprintf("; %s came with commit %s instead, with the same content", what.version, now.Commit)
	}
	return differ("commit of "+what.profile+" "+what.version, 0, what.commit, found)
}

// selection checks the commit that allegedly made the claimed version current; nil if it
// did. Artifacts have no such commit.
func (o *origin) selection(ctx context.Context, what claim, at, selected string) (*Difference, error) {
	if _, invalid := source.ParseCommit(what.commit); !o.found || invalid != nil {
		return nil, nil //nolint:nilerr // the revision of an artifact, or empty
	}
	if selected == "" && what.selected == "" {
		return nil, nil
	}
	ok, err := o.selects(ctx, what, selected)
	if err != nil || ok {
		return nil, err
	}
	return differ(at, 0, "a commit that made "+what.version+" current", selected), nil
}

// selects reports whether a commit made the claimed version current or, as with a pin,
// introduced it.
func (o *origin) selects(ctx context.Context, what claim, selected string) (bool, error) {
	if selected == string(o.version.Commit) {
		return true, nil
	}
	id, invalid := source.ParseCommit(selected)
	if invalid != nil || o.line == nil {
		return false, nil //nolint:nilerr // an invalid commit selects nothing
	}
	if on, err := o.line.Continues(ctx, id); err != nil || !on {
		return false, err
	}
	for _, r := range []*repository{o.repository, o.before} {
		if r == nil {
			continue
		}
		snap, err := r.at(ctx, selected)
		if errors.Is(err, source.ErrNotFound) {
			continue // the folder did not exist
		}
		if err != nil {
			return false, err
		}
		cat, err := r.indexer.Catalogue(ctx, snap)
		if err != nil {
			return false, err
		}
		if slices.ContainsFunc(cat.Current, func(p profile.Version) bool {
			return p.Name == what.profile && p.Version == what.version && p.Digest == what.digest && p.SelectedBy == id
		}) {
			return true, nil
		}
	}
	return false, nil
}
