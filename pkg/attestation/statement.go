package attestation

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	provenancev1 "github.com/in-toto/attestation/go/predicates/provenance/v1"
	intotov1 "github.com/in-toto/attestation/go/v1"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/structpb"
	"google.golang.org/protobuf/types/known/timestamppb"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	api "github.com/osm-gitops/osm-gitops/pkg/api/gitops/v1alpha1"
	"github.com/osm-gitops/osm-gitops/pkg/render"
)

// Names in statements. They are part of the format: verifiers compare them.
const (
	// PredicateType of SLSA: https://slsa.dev/spec/v1.0/provenance
	PredicateType = "https://slsa.dev/provenance/v1"
	// BuildType defines the meaning of the parameters: docs/attestation.md.
	BuildType = "https://github.com/osm-gitops/osm-gitops/node-configuration/v1"
	// BuilderID names the renderer.
	BuilderID = "https://github.com/osm-gitops/osm-gitops/controller"
	// PayloadType of in-toto in a DSSE envelope:
	// https://github.com/in-toto/attestation/blob/v1.2.0/spec/v1/envelope.md
	PayloadType = "application/vnd.in-toto+json"
)

// Names of the subjects.
const (
	Bootstrap    = "bootstrap"
	Provisioning = "provisioning"
	Config       = "OperatingSystemConfig"
)

// ErrUnknown says that the origin of a node is unknown.
var ErrUnknown = errors.New("the origin of the node is unknown")

// Node has the records about a node.
type Node struct {
	// Provenance was written when the node joined.
	Provenance *api.NodeProvenance
	// Provisioning is the record of its configuration, Bootstrap the record of the bootstrap
	// document with which its machine was created: often the same.
	Provisioning, Bootstrap render.Record
}

// Statements returns the statements about a node, each in one line of JSON: one for the
// documents of a generation. If the bootstrap document is from an older generation than the
// other, there are two, the older one first. ErrUnknown means that there is nothing to
// state.
func Statements(n Node) ([][]byte, error) {
	spec := n.Provenance.Spec
	if spec.Configuration == nil {
		return nil, fmt.Errorf("node %s: %w: %s", spec.Node.Name, ErrUnknown, spec.Explanation)
	}
	if got, want := n.Provisioning.Digests.Input, spec.Configuration.InputDigest; got != want {
		return nil, fmt.Errorf("node %s: the record is of configuration %s, the node's is %s", spec.Node.Name, got, want)
	}
	bootstrap := spec.Configuration.InputDigest
	if spec.Bootstrap != nil {
		bootstrap = spec.Bootstrap.InputDigest
	}
	all := []statementBuilder{{of: n.Provisioning, names: []string{Bootstrap, Provisioning, Config}}}
	if bootstrap != spec.Configuration.InputDigest {
		if got := n.Bootstrap.Digests.Input; got != bootstrap {
			return nil, fmt.Errorf("node %s: the record of the bootstrap document is of configuration %s, the node's is %s", spec.Node.Name, got, bootstrap)
		}
		all = []statementBuilder{{of: n.Bootstrap, names: []string{Bootstrap}}, {of: n.Provisioning, names: []string{Provisioning, Config}}}
	}
	var out [][]byte
	for _, b := range all {
		text, err := b.buildStatement(n.Provenance)
		if err != nil {
			return nil, fmt.Errorf("making a statement about node %s: %w", spec.Node.Name, err)
		}
		out = append(out, text)
	}
	return out, nil
}

// statementBuilder builds the statement about the documents of one generation that a node has.
type statementBuilder struct {
	of    render.Record
	names []string
}

func (b statementBuilder) buildStatement(np *api.NodeProvenance) ([]byte, error) {
	predicate, err := b.buildPredicate(np)
	if err != nil {
		return nil, err
	}
	s := &intotov1.Statement{Type: intotov1.StatementTypeUri, PredicateType: PredicateType, Predicate: predicate}
	for _, name := range b.names {
		digest := map[string]string{Bootstrap: b.of.Digests.Bootstrap, Provisioning: b.of.Digests.Provisioning, Config: b.of.Digests.Spec}[name]
		d, err := digestSet(digest)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		s.Subject = append(s.Subject, &intotov1.ResourceDescriptor{Name: name, Digest: d})
	}
	if err := s.Validate(); err != nil {
		return nil, err
	}
	return encodeCompactJSON(s)
}

// buildPredicate returns SLSA's provenance: the request, the inputs, the builder.
func (b statementBuilder) buildPredicate(np *api.NodeProvenance) (*structpb.Struct, error) {
	external, err := b.externalParameters(np)
	if err != nil {
		return nil, err
	}
	internal, err := b.internalParameters(np)
	if err != nil {
		return nil, err
	}
	from, err := b.resolvedDependencies(np)
	if err != nil {
		return nil, err
	}
	p := &provenancev1.Provenance{
		BuildDefinition: &provenancev1.BuildDefinition{
			BuildType: BuildType, ExternalParameters: external, InternalParameters: internal, ResolvedDependencies: from,
		},
		RunDetails: &provenancev1.RunDetails{
			Builder:  &provenancev1.Builder{Id: BuilderID, Version: map[string]string{"engine": b.of.Engine}},
			Metadata: &provenancev1.BuildMetadata{InvocationId: b.of.Digests.Input},
		},
	}
	if first := np.Spec.Bootstrap; first != nil && first.InputDigest == b.of.Digests.Input {
		p.RunDetails.Metadata.StartedOn = timestamppb.New(first.From.Time)
	}
	if err := p.Validate(); err != nil {
		return nil, err
	}
	text, err := encodeCompactJSON(p)
	if err != nil {
		return nil, err
	}
	out := &structpb.Struct{}
	return out, protojson.Unmarshal(text, out)
}

// externalParameters returns the user's request: a profile of a repository, for a pool.
func (b statementBuilder) externalParameters(np *api.NodeProvenance) (*structpb.Struct, error) {
	return toProtoStruct(struct {
		Profile    string      `json:"profile"`
		Version    string      `json:"version,omitempty"`
		Repository string      `json:"repository,omitempty"`
		Path       string      `json:"path,omitempty"`
		Pool       pool        `json:"pool"`
		PoolInputs render.Pool `json:"poolFacts"`
	}{
		b.profileName(), b.of.Version, b.of.Repository, b.of.Path,
		pool{np.Spec.Pool.Namespace, np.Spec.Pool.Name, string(np.Spec.Pool.UID)}, b.of.Pool,
	})
}

type pool struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	UID       string `json:"uid"`
}

// profileName returns the profile's name; for one that a user created, the name of its object.
func (b statementBuilder) profileName() string {
	if b.of.Profile != "" {
		return b.of.Profile
	}
	return b.of.Object
}

// internalParameters returns what the platform added, and the evidence that links it to the node.
func (b statementBuilder) internalParameters(np *api.NodeProvenance) (*structpb.Struct, error) {
	type machine struct {
		Namespace string `json:"namespace"`
		Name      string `json:"name"`
		UID       string `json:"uid"`
	}
	type node struct {
		Name       string          `json:"name"`
		UID        string          `json:"uid"`
		ProviderID string          `json:"providerID,omitempty"`
		Machine    machine         `json:"machine"`
		Joined     metav1.Time     `json:"joined"`
		Evidence   api.Evidence    `json:"evidence"`
		Reported   *api.NodeReport `json:"reported,omitempty"`
		Agreed     string          `json:"agreed,omitempty"` // reason of the condition
	}
	n := np.Spec.Node
	of := node{
		n.Name, string(n.UID), n.ProviderID, machine{np.Spec.Machine.Namespace, np.Spec.Machine.Name, string(np.Spec.Machine.UID)},
		n.Joined, np.Spec.Evidence, np.Spec.Reported, "",
	}
	if agreed := apimeta.FindStatusCondition(np.Status.Conditions, api.AgreedCondition); agreed != nil {
		of.Agreed = agreed.Reason
	}
	return toProtoStruct(struct {
		InputDigest    string `json:"inputDigest"`
		SettingsDigest string `json:"settingsDigest"`
		SecretName     string `json:"bootstrapKubeconfigSecretName,omitempty"`
		SelectedBy     string `json:"selectedBy,omitempty"`
		Node           node   `json:"node"`
	}{b.of.Digests.Input, b.of.SettingsDigest, b.of.BootstrapKubeconfigSecretName, b.of.SelectedBy, of})
}

// resolvedDependencies returns the field of this name of SLSA's provenance: the commit, the profile
// and the settings.
func (b statementBuilder) resolvedDependencies(np *api.NodeProvenance) ([]*intotov1.ResourceDescriptor, error) {
	var out []*intotov1.ResourceDescriptor
	if b.of.Commit != "" {
		source, err := b.sourceDescriptor(np)
		if err != nil {
			return nil, err
		}
		out = append(out, source)
	}
	for _, d := range []struct{ name, digest string }{
		{"OperatingSystemProfile/" + b.of.Object, b.of.ObjectDigest}, {"settings", b.of.SettingsDigest},
	} {
		digest, err := digestSet(d.digest)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", d.name, err)
		}
		out = append(out, &intotov1.ResourceDescriptor{Name: d.name, Digest: digest})
	}
	return out, nil
}

// sourceDescriptor returns the commit or artifact of the profile.
func (b statementBuilder) sourceDescriptor(np *api.NodeProvenance) (*intotov1.ResourceDescriptor, error) {
	notes := map[string]any{"path": b.of.Path}
	if b.of.Change != "" {
		notes["change"] = b.of.Change
	}
	if c := np.Spec.Configuration; c.InputDigest == b.of.Digests.Input {
		for key, value := range map[string]string{"author": c.Author, "committedAt": c.CommittedAt, "signature": c.Signature} {
			if value != "" {
				notes[key] = value
			}
		}
	}
	annotations, err := structpb.NewStruct(notes)
	if err != nil {
		return nil, err
	}
	d := &intotov1.ResourceDescriptor{Name: "source", Annotations: annotations}
	const sha1Digits = 40
	if len(b.of.Commit) == sha1Digits && isHex(b.of.Commit) {
		d.Digest = map[string]string{string(intotov1.AlgorithmGitCommit): b.of.Commit}
		if b.of.Repository != "" {
			d.Uri = "git+" + b.of.Repository + "@" + b.of.Commit
		}
		return d, nil
	}
	// the revision of an artifact: "latest@sha256:…", or a name
	annotations.Fields["revision"] = structpb.NewStringValue(b.of.Commit)
	d.Uri = b.of.Repository
	if algorithm, digest, ok := strings.Cut(b.of.Commit[strings.LastIndex(b.of.Commit, "@")+1:], ":"); ok && isHex(digest) {
		if known, ok := intotov1.HashAlgorithms[algorithm]; ok && len(digest) == 2*known.HexLength() {
			d.Digest = map[string]string{algorithm: digest}
		}
	}
	return d, nil
}

// toProtoStruct converts a struct to the type of in-toto's library.
func toProtoStruct(v any) (*structpb.Struct, error) {
	text, err := json.Marshal(v)
	if err != nil {
		return nil, err
	}
	out := &structpb.Struct{}
	return out, protojson.Unmarshal(text, out)
}

// digestSet parses one of our digests, "v1:sha256:<64 hex>", which covers the bytes
// themselves.
func digestSet(digest string) (map[string]string, error) {
	const recipe, digits = "v1:sha256:", 64
	hexDigits, ok := strings.CutPrefix(digest, recipe)
	if !ok || len(hexDigits) != digits || !isHex(hexDigits) {
		return nil, fmt.Errorf("the digest %q is not of the form %s and %d digits: another release created the record", digest, recipe, digits)
	}
	return map[string]string{string(intotov1.AlgorithmSHA256): hexDigits}, nil
}

func isHex(s string) bool { return s != "" && strings.Trim(s, "0123456789abcdef") == "" }

// encodeCompactJSON formats a message as JSON on one line. protojson adds random spaces to prevent
// comparing bytes, so they are removed.
func encodeCompactJSON(m proto.Message) ([]byte, error) {
	text, err := protojson.Marshal(m)
	if err != nil {
		return nil, err
	}
	var b bytes.Buffer
	if err := json.Compact(&b, text); err != nil {
		return nil, err
	}
	return b.Bytes(), nil
}
