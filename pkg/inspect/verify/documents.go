package verify

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"regexp"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	api "github.com/osm-gitops/osm-gitops/pkg/api/gitops/v1alpha1"
	"github.com/osm-gitops/osm-gitops/pkg/kubeclient"
	"github.com/osm-gitops/osm-gitops/pkg/lineage"
	"github.com/osm-gitops/osm-gitops/pkg/redact"
	"github.com/osm-gitops/osm-gitops/pkg/render"
	"github.com/osm-gitops/osm-gitops/pkg/render/equivalence"
)

// checkPoolSecrets compares the Secrets from which machines of a pool boot.
func (v *Verifier) checkPoolSecrets(ctx context.Context, s *target, r *rendering) ([]Check, error) {
	all := Check{Thing: ThingSecret, Name: api.NamespaceCloudInitSettings + "/" + s.pool.Name + "-" + s.pool.Namespace + "-*"}
	if v.WithoutSecrets {
		return []Check{all.asSkipped("excluded by --without-secrets")}, nil
	}
	b, why, err := v.newBootRenderer(ctx, s, r)
	// Without this permission the rest can still be verified.
	if apierrors.IsForbidden(err) {
		return []Check{all.asUnproven("%s: exclude them with --without-secrets", redact.PrintableLine(err.Error()))}, nil
	}
	if err != nil {
		return nil, err
	}
	if why != "" {
		return []Check{all.asUnproven("%s", why)}, nil
	}
	if b.others {
		// The Secret with credentials also contains other inputs, such as the proxy's address,
		// which have to match the record.
		inputs := Check{Thing: ThingSecret, Name: api.NamespaceCloudInitSettings + "/" + lineage.NamesOf(s.pool).Inputs}
		return []Check{inputs.withDifference(newDifference("key "+render.ShortDigest(s.digest), 0, "credentials and settings with the recorded input digest", hidden))}, nil
	}
	var out []Check
	for _, stage := range []string{"provisioning", "bootstrap"} {
		c, err := v.checkDocument(ctx, s, b, stage)
		if err != nil {
			return nil, err
		}
		out = append(out, c)
	}
	out = append(out, b.checkKubeconfig(s))
	if s.gen.Record.Pool.HasEdgeScript() {
		c, err := v.checkEdgeScript(ctx, s, b)
		if err != nil {
			return nil, err
		}
		out = append(out, c)
	}
	return out, nil
}

// bootRenderer renders the documents from which machines of a pool boot, with the credentials of
// the generation and with placeholders for tokens.
type bootRenderer struct {
	engine       *render.Engine
	in           render.Input
	placeholders *render.Output        // the documents with placeholders for all credentials and tokens
	secrets      []string              // credentials, which are never shown
	kubeconfig   *corev1.Secret        // nil if it is missing
	others       bool                  // the credentials belong to another generation
	info         *clientcmdapi.Cluster // nil if it is missing or invalid
}

func (v *Verifier) newBootRenderer(ctx context.Context, s *target, r *rendering) (b *bootRenderer, why string, err error) {
	b = &bootRenderer{engine: v.Engine, in: r.in, placeholders: r.out}
	if b.kubeconfig, err = v.readNodeSecret(ctx, kubeconfigName(s)); err != nil {
		return nil, "", err
	}
	if b.info, err = v.readClusterInfo(ctx); err != nil {
		return nil, "", err
	}
	if check := b.checkKubeconfig(s); check.Result == Agrees {
		b.in.Cluster.BootstrapKubeconfig = withToken(string(b.kubeconfig.Data[api.KubeconfigKey]), r.in.Cluster.BootstrapToken)
	} else if b.in.Cluster.BootstrapKubeconfig, err = b.buildKubeconfig(); err != nil {
		return nil, "", err
	}
	hidden := r.in.Credentials()
	if hidden.Empty() {
		return b, "", nil
	}
	name := lineage.NamesOf(s.pool).Inputs
	inputs, err := v.readNodeSecret(ctx, name)
	if err != nil {
		return nil, "", err
	}
	credentials, ok := credentialsIn(inputs, s.digest)
	if !ok {
		return nil, fmt.Sprintf("the Secret %s/%s lacks the credentials of this configuration, which are necessary to render its documents", api.NamespaceCloudInitSettings, name), nil
	}
	b.in = b.in.WithCredentials(credentials)
	b.secrets = credentialStrings(credentials)
	b.others = b.in.InputDigest() != s.digest
	return b, "", nil
}

// credentialsIn reads the credentials of a generation from the Secret of its pool.
func credentialsIn(inputs *corev1.Secret, digest string) (credentials render.Credentials, ok bool) {
	if inputs == nil {
		return credentials, false
	}
	err := json.Unmarshal(inputs.Data[render.ShortDigest(digest)], &credentials)
	return credentials, err == nil
}

// credentialStrings returns all strings in credentials, and each line of multi-line ones.
func credentialStrings(credentials render.Credentials) []string {
	t, err := toJSONTree(credentials)
	if err != nil {
		return nil
	}
	var out []string
	var walk func(any)
	walk = func(v any) {
		switch v := v.(type) {
		case string:
			out = append(append(out, v), strings.Split(v, "\n")...)
		case map[string]any:
			for _, e := range v {
				walk(e)
				// A document can have each line of a key with another indentation.
			}
		case []any:
			for _, e := range v {
				walk(e)
			}
		}
	}
	walk(t)
	return out
}

// readNodeSecret reads a Secret of nodes; nil if there is none.
func (v *Verifier) readNodeSecret(ctx context.Context, name string) (*corev1.Secret, error) {
	var s corev1.Secret
	found, err := kubeclient.Find(ctx, v.Worker, types.NamespacedName{Namespace: api.NamespaceCloudInitSettings, Name: name}, &s)
	if err != nil || !found {
		return nil, err
	}
	return &s, nil
}

// checkDocument compares the document of one stage of a pool.
func (v *Verifier) checkDocument(ctx context.Context, s *target, b *bootRenderer, stage string) (Check, error) {
	name := lineage.NamesOf(s.pool).Provisioning
	if stage == "bootstrap" {
		name = lineage.NamesOf(s.pool).Bootstrap
	}
	check := Check{Thing: ThingSecret, Name: api.NamespaceCloudInitSettings + "/" + name}
	secret, err := v.readNodeSecret(ctx, name)
	if err != nil {
		return check, err
	}
	if secret == nil {
		return check.asMissing("machines of the pool need it to boot"), nil
	}
	rec, a := s.gen.Record, secret.Annotations
	if d := firstMismatch(field{"annotation " + api.AnnotationInputDigest, rec.Digests.Input, a[api.AnnotationInputDigest]}); d != nil {
		return check.withDifference(d), nil
	}
	document := secret.Data[api.UserDataKey]
	if secret.Immutable != nil && *secret.Immutable && a[api.AnnotationCredentialsExpireAt] == "" {
		check.Note = "operating-system-manager created it; it is equivalent to the result of rendering again"
		d, err := b.compareOSMDocument(document, stage)
		return check.withDifference(d), err
	}
	d, err := b.compareDocument(document, stage)
	if err != nil || d != nil {
		return check.withDifference(d), err
	}
	check.Note = "it equals the result of rendering again with its tokens"
	fields := append(annotationFields(rec, a),
		field{"annotation " + api.AnnotationPool, s.pool.String(), a[api.AnnotationPool]},
		field{"annotation " + api.AnnotationDataDigest, lineage.DataDigest(document), a[api.AnnotationDataDigest]})
	if d := firstMismatch(fields...); d != nil {
		return check.withDifference(d), nil
	}
	if len(secret.Data) != 1 {
		return check.withDifference(newDifference("data", 0, "the key "+api.UserDataKey+" alone", fmt.Sprintf("%d keys", len(secret.Data)))), nil
	}
	return check.withDifference(nil), nil
}

func documentOfStage(out *render.Output, stage string) []byte {
	if stage == "bootstrap" {
		return out.Bootstrap
	}
	return out.Provisioning
}

// compareDocument renders a document again, and returns the first difference; nil if both are equal. The
// tokens of nodes and kubelets in it are not recorded: a rendering with placeholders for them
// shows where the document can have them, and each pair of tokens that was found is tried.
func (b *bootRenderer) compareDocument(document []byte, stage string) (*Difference, error) {
	withPlaceholders, err := b.engine.Render(b.in)
	if err != nil {
		return nil, err
	}
	closest, have := entriesOf(documentOfStage(withPlaceholders, stage)), entriesOf(document)
	for _, pair := range candidateTokens(closest, have, b.in.Cluster) {
		out, err := b.engine.Render(b.withTokens(pair))
		if err != nil {
			continue // these are not the tokens of the document
		}
		if bytes.Equal(documentOfStage(out, stage), document) {
			return nil, nil
		}
		// The rendering that has most in common with the document shows the real difference, instead
		// of one in the tokens.
		if got := entriesOf(documentOfStage(out, stage)); countCommonEntries(got, have) >= countCommonEntries(closest, have) {
			closest = got
		}
	}
	// b.placeholders has no credentials at all: only values that equal its own are shown.
	return b.firstDifference(closest, have, entriesOf(documentOfStage(b.placeholders, stage))), nil
}

// withTokens replaces the placeholders of the input by tokens.
func (b *bootRenderer) withTokens(t tokens) render.Input {
	in := b.in
	in.Cluster.APIServerToken, in.Cluster.BootstrapToken = t.node, t.kubelet
	in.Cluster.BootstrapKubeconfig = strings.ReplaceAll(in.Cluster.BootstrapKubeconfig, b.in.Cluster.BootstrapToken, t.kubelet)
	return in
}

// countCommonEntries counts the entries that two documents have in common.
func countCommonEntries(a, b []entry) int {
	has := map[entry]bool{}
	for _, l := range b {
		has[l] = true
	}
	n := 0
	for _, l := range a {
		if has[l] {
			n++
		}
	}
	return n
}

// firstDifference finds the first difference between documents. It shows values only of texts
// without credentials: rendering with placeholders gives the same text, and no placeholder
// is in it (security.md 15).
func (b *bootRenderer) firstDifference(want, have, placeholders []entry) *Difference {
	texts := func(entries []entry) map[string]string {
		m := map[string]string{}
		for _, l := range entries {
			m[l.where] = l.text
		}
		return m
	}
	foundTexts := texts(have)
	safe := texts(placeholders)
	wanted := texts(want)
	if _, unreadable := foundTexts[wholeDocument]; unreadable && len(want) > 1 {
		return newDifference(wholeDocument, 0, "a readable document", hidden)
	}
	for _, w := range want {
		h, ok := foundTexts[w.where]
		switch {
		case !ok:
			return newDifference(w.where, 0, "present", "")
		case h != w.text && safe[w.where] == w.text && !b.hasTokenPlaceholder(w.text):
			return compareText(w.where, w.text, maskCredentials(h, b.secrets...))
		case h != w.text:
			return &Difference{Field: redact.PrintableLine(w.where), Line: firstDifferingLine(strings.Split(w.text, "\n"), strings.Split(h, "\n")) + 1, Expected: "the result of rendering, with credentials", Found: hidden}
		}
	}
	for _, h := range have {
		if _, ok := wanted[h.where]; !ok {
			return newDifference(h.where, 0, "", "present")
		}
	}
	return newDifference("the form of the document", 0, "the text of the rendering", "another text with the same content")
}

// hasTokenPlaceholder reports whether a text contains the placeholder of a token.
func (b *bootRenderer) hasTokenPlaceholder(text string) bool {
	return strings.Contains(text, b.in.Cluster.APIServerToken) || strings.Contains(text, b.in.Cluster.BootstrapToken)
}

// compareOSMDocument compares a document that operating-system-manager created.
func (b *bootRenderer) compareOSMDocument(document []byte, stage string) (*Difference, error) {
	out, err := b.engine.Render(b.in)
	if err != nil {
		return nil, err
	}
	found := candidateTokens(entriesOf(documentOfStage(out, stage)), entriesOf(document), b.in.Cluster)
	if out, err = b.engine.Render(b.withTokens(found[0])); err != nil {
		return nil, err
	}
	differences, err := equivalence.Compare(document, documentOfStage(out, stage))
	if err != nil {
		return newDifference("the document", 0, "a readable document", "another"), nil //nolint:nilerr // that it cannot be read is the finding
	}
	if len(differences) > 0 {
		return newDifference(differences[0].What, 0, hidden, hidden), nil
	}
	return nil, nil
}

// checkEdgeScript compares the script with which a machine of provider edge fetches its first
// document.
func (v *Verifier) checkEdgeScript(ctx context.Context, s *target, b *bootRenderer) (Check, error) {
	name := lineage.NamesOf(s.pool).EdgeScript
	check := Check{Thing: ThingSecret, Name: api.NamespaceCloudInitSettings + "/" + name}
	secret, err := v.readNodeSecret(ctx, name)
	if err != nil {
		return check, err
	}
	if secret == nil {
		return check.asMissing("machines of provider edge need it to fetch their first document"), nil
	}
	have := string(secret.Data["fetch-bootstrap-script"])
	var d *Difference
	for _, in := range b.inputsPerEndpoint() {
		script := in.EdgeScript()
		want := []entry{{"the script", script}}
		for _, token := range valuesReplacing(want, []entry{{"the script", have}}, in.Cluster.APIServerToken, nodeShape) {
			want[0].text = strings.ReplaceAll(script, in.Cluster.APIServerToken, token)
			if want[0].text == have {
				check.Note = "it equals the result of rendering again with its token"
				return check.withDifference(nil), nil
			}
		}
		if d == nil {
			d = b.firstDifference(want, []entry{{"the script", have}}, []entry{{"the script", script}})
		}
	}
	return check.withDifference(d), nil
}

// inputsPerEndpoint returns the input with each CA and server that nodes may have received.
func (b *bootRenderer) inputsPerEndpoint() []render.Input {
	all := []render.Input{b.in}
	if b.info != nil {
		for _, server := range []string{b.in.Cluster.Server, b.info.Server} {
			in := b.in
			in.Settings.KubernetesCACert, in.Cluster.Server = string(b.info.CertificateAuthorityData), server
			all = append(all, in)
		}
	}
	return all
}

// tokenLine matches the token in a kubeconfig.
var tokenLine = regexp.MustCompile(`(?m)^(\s*token: ["']?)[a-z0-9]{6}\.[a-z0-9]{16}(["']?)[ \t]*$`)

// withToken replaces the token of a kubeconfig.
func withToken(kubeconfig, token string) string {
	return tokenLine.ReplaceAllString(kubeconfig, "${1}"+token+"${2}")
}
