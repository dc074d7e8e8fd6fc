package dryrun

import (
	"fmt"
	"regexp"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	api "github.com/osm-gitops/osm-gitops/pkg/api/gitops/v1alpha1"
	"github.com/osm-gitops/osm-gitops/pkg/impact"
	"github.com/osm-gitops/osm-gitops/pkg/lineage"
	"github.com/osm-gitops/osm-gitops/pkg/phrase"
	"github.com/osm-gitops/osm-gitops/pkg/reconcile/dryrun/virtual"
	"github.com/osm-gitops/osm-gitops/pkg/redact"
	"github.com/osm-gitops/osm-gitops/pkg/render/equivalence"
)

// Document is a Secret that machines of a pool boot from.
type Document struct {
	Stage  string `json:"stage"`
	Secret string `json:"secret"`
	// Change is one of the constants below.
	Change string `json:"change"`
	// Equivalence compares what a machine gets: EquivalenceSame, EquivalenceSameToken or EquivalenceOther. It is
	// empty if there was no document, or there is none now.
	Equivalence string `json:"meaning,omitempty"`
	// Differs names the differences, such as the path of a file; never their content.
	Differs []string `json:"differs,omitempty"`
	// Absent reports that the Secret is deleted and created, and does not exist for a
	// moment.
	Absent bool `json:"absent,omitempty"`
}

// The changes of a document.
const (
	DocumentMissing   = "missing"   // there is none, and none is created
	DocumentUntouched = "untouched" // nothing is written
	DocumentIdentical = "kept"      // labels and annotations are written, the content is identical
	DocumentCreated   = "created"
	DocumentWritten   = "written" // its content changes
	DocumentDeleted   = "deleted"
)

// What the change of a document means for a machine.
const (
	EquivalenceSame      = "the same"
	EquivalenceSameToken = "the same, with another token"
	EquivalenceOther     = "another"
)

func compareDocuments(from *virtual.Store, pool types.NamespacedName) []Document {
	names := lineage.NamesOf(pool)
	out := []Document{{Stage: "bootstrap", Secret: names.Bootstrap}, {Stage: "provisioning", Secret: names.Provisioning}}
	for i := range out {
		d := &out[i]
		c := from.ChangeOf(d.Secret)
		if c == nil {
			d.Change, d.Equivalence = DocumentUntouched, EquivalenceSame
			continue
		}
		d.Absent = c.Deleted
		d.classifyChange(c.Before, c.After)
	}
	return out
}

// classifyChange sets what kind of change a document has, and how its content differs.
func (d *Document) classifyChange(before, after []byte) {
	was, had := virtual.Decode(before, &corev1.Secret{})
	is, has := virtual.Decode(after, &corev1.Secret{})
	old, now := was.Data[api.UserDataKey], is.Data[api.UserDataKey]
	switch {
	case !has:
		d.Change, d.Absent = DocumentDeleted, false
		return
	case !had:
		d.Change = DocumentCreated
		return
	case string(old) == string(now) && !d.Absent:
		d.Change, d.Equivalence = DocumentIdentical, EquivalenceSame
		return
	}
	d.Change, d.Equivalence = DocumentWritten, EquivalenceSame
	differences, err := equivalence.Compare(old, now)
	if err != nil {
		d.Equivalence, d.Differs = EquivalenceOther, []string{redact.CleanMessage(err.Error())}
		return
	}
	for _, diff := range differences {
		if sameButTokens(diff) {
			if d.Equivalence == EquivalenceSame {
				d.Equivalence = EquivalenceSameToken
			}
			continue
		}
		d.Equivalence, d.Differs = EquivalenceOther, append(d.Differs, diff.What)
	}
}

// The tokens that can be in a document: a signed JSON web token (RFC 7515, section 7.1),
// and a bootstrap token.
var (
	webToken       = regexp.MustCompile(`eyJ[\w-]+\.[\w-]+\.[\w-]+`)
	bootstrapToken = regexp.MustCompile(`\b[a-z0-9]{6}\.[a-z0-9]{16}\b`)
)

// sameButTokens reports whether only tokens differ.
func sameButTokens(d equivalence.Difference) bool {
	plain := func(v any) string {
		text := strings.ReplaceAll(fmt.Sprint(v), impact.PlaceholderNodeToken(), "token")
		return bootstrapToken.ReplaceAllString(webToken.ReplaceAllString(text, "token"), "token")
	}
	return plain(d.Reference) == plain(d.Ours)
}

// machineEffect describes the effect on machines of all changes of a pool.
func (p *Pool) machineEffect() string {
	if p.Problem != "" {
		return "unknown: " + p.Problem
	}
	var out []string
	other := []string{}
	created := false
	missing := false
	gone := false
	absent := false
	token := false
	for _, d := range p.Documents {
		absent = absent || d.Absent
		created = created || d.Change == DocumentCreated
		gone = gone || d.Change == DocumentDeleted
		missing, token = missing || d.Change == DocumentMissing, token || d.Equivalence == EquivalenceSameToken
		for _, what := range d.Differs {
			other = append(other, d.Stage+" "+what)
		}
	}
	switch {
	case created:
		out = append(out, "machines can be created: there was nothing to boot from")
	case gone:
		out = append(out, "machines can no longer be created")
	case len(other) > 0:
		out = append(out, "new machines boot something different: "+phrase.First(other, mostNamed))
	}
	if absent {
		out = append(out, "each Secret that is deleted and created is absent for a moment, once, while no machine boots")
	}
	if p.Replaced {
		out = append(out, "running machines are replaced")
	}
	if missing && len(out) == 0 {
		return "no machine can be created: there is nothing to boot from"
	}
	if p.Waits && len(out) == 0 {
		return "nothing yet: it waits"
	}
	if len(out) == 0 && token {
		return "nothing: their documents have the same meaning, with another token"
	}
	if len(out) == 0 {
		return "nothing: their documents do not change"
	}
	return strings.Join(out, "; ")
}

// mostNamed is the maximum number of names in a sentence.
const mostNamed = 10
