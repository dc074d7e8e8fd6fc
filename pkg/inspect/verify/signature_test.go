package verify

import (
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/fluxcd/pkg/apis/meta"
	"golang.org/x/crypto/ssh"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	api "github.com/osm-gitops/osm-gitops/pkg/api/gitops/v1alpha1"
	"github.com/osm-gitops/osm-gitops/pkg/source/signature"
	"github.com/osm-gitops/osm-gitops/test/clusterfixture"
)

// signer signs the commits of a scene's repository with the real git.
type signer struct{ file, public string }

func newSigner(t *testing.T) signer {
	t.Helper()
	file := filepath.Join(t.TempDir(), "key")
	if out, err := exec.CommandContext(t.Context(), "ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "", "-f", file).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	public, err := os.ReadFile(file + ".pub")
	if err != nil {
		t.Fatal(err)
	}
	return signer{file, strings.TrimSpace(string(public))}
}

const keysName = "keys"

// demand makes the ProfileSource require signatures of a signer. The Secret contains text.
func (s *scene) demand(text string) {
	s.t.Helper()
	clusterfixture.Get[*api.ProfileSource](s.e, clusterfixture.Source).Spec.Git.Verify = &api.GitVerification{SecretRef: meta.LocalObjectReference{Name: keysName}}
	s.e.Objects = append(s.e.Objects, &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: clusterfixture.Namespace, Name: keysName}, Data: map[string][]byte{"allowed_signers": []byte(text)},
	})
}

// sign signs all further commits.
func (s *scene) sign(by signer) {
	s.t.Helper()
	for _, c := range [][2]string{{"gpg.format", "ssh"}, {"user.signingkey", by.file}, {"commit.gpgsign", "true"}} {
		s.repo.Git("config", c[0], c[1])
	}
}

// third pushes and serves one more version, whose object claims a signature.
func (s *scene) third(claimed string) {
	s.t.Helper()
	osp := s.repo.Push(2, "echo three")
	if claimed != "" {
		osp.Annotations[api.AnnotationSignature] = strings.ReplaceAll(claimed, "COMMIT", osp.Annotations[api.AnnotationCommit])
	}
	s.e.Serve("workers", 2, clusterfixture.At(50))
}

// before pushes one more version without a signature, then a commit by a signer if there is
// one, and serves the version, whose object claims a signature.
func (s *scene) before(by *signer, claimed string) {
	s.t.Helper()
	osp := s.repo.Push(2, "echo three")
	if by != nil {
		s.sign(*by)
	}
	s.repo.Git("commit", "--quiet", "--allow-empty", "--message", "later")
	osp.Annotations[api.AnnotationSignature] = strings.ReplaceAll(claimed, "LATER", s.repo.Git("rev-parse", "HEAD"))
	s.e.Serve("workers", 2, clusterfixture.At(50))
}

// refusing is an API server that denies access to one Secret.
type refusing struct {
	client.Reader
	name string
}

func (r refusing) Get(ctx context.Context, key client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
	if _, ok := obj.(*corev1.Secret); ok && key.Name == r.name {
		return apierrors.NewForbidden(corev1.Resource("secrets"), key.Name, nil)
	}
	return r.Reader.Get(ctx, key, obj, opts...)
}

// A required signature that cannot be verified is always reported: if the keys cannot be
// read, if the commit has none, and if no signature is claimed any more.
func TestSignature(t *testing.T) {
	ada, eve := newSigner(t), newSigner(t)
	given := func(s *scene, by signer) {
		keys, err := signature.ParseKeys(map[string][]byte{"allowed_signers": []byte("ada@example.com " + by.public)})
		s.do(err)
		s.v.Keys = keys
	}
	byAda := "ada@example.com " + ada.public
	key, _, _, _, err := ssh.ParseAuthorizedKey([]byte(ada.public))
	if err != nil {
		t.Fatal(err)
	}
	later := "commit LATER by ada@example.com, ssh " + ssh.FingerprintSHA256(key)
	for name, c := range map[string]struct {
		do      func(s *scene)
		refused bool // access to the Secret with keys is denied
		verdict string
		says    string // the note of the signature, or its difference
	}{
		"nobody demands signatures": {func(s *scene) { s.third("") }, false, "agrees", ""},
		"keys that may not be read": {func(s *scene) { s.demand(byAda); s.third("") }, true, "unproven", "is forbidden: <nil>: name files with the public keys in --keys"},
		"keys that are not there":   {func(s *scene) { s.demand(byAda); clusterfixture.Delete[*corev1.Secret](s.e, keysName); s.third("") }, false, "unproven", "the Secret kube-system/keys with the public keys does not exist: name files with the keys in --keys"},
		"keys that are none":        {func(s *scene) { s.demand("rubbish"); s.third("") }, false, "unproven", "the Secret kube-system/keys: "},
		"a signed commit":           {func(s *scene) { s.demand(byAda); s.sign(ada); s.third("") }, false, "agrees", "signed by ada@example.com"},
		"a signed commit that another one is said to have signed": {func(s *scene) {
			s.demand(byAda)
			s.sign(ada)
			s.third("commit COMMIT by eve@example.com, ssh SHA256:x")
		}, false, "signature differs", "by ada@example.com"},
		"an unsigned commit that is said to be signed": {func(s *scene) {
			s.demand(byAda)
			s.third("commit COMMIT by ada@example.com, ssh SHA256:x")
		}, false, "signature differs", "a good one: commit "},
		"a commit that a stranger signed, and nobody says so": {func(s *scene) { s.demand(byAda); s.sign(eve); s.third("") }, false, "unproven", "and no signature is claimed; the followed commit"},
		"an unsigned commit, and nobody says that it is signed": {func(s *scene) { s.demand(byAda); s.third("") }, false, "unproven",
			"and no signature is claimed; the followed commit "},
		"an unsigned commit from before signatures were demanded": {func(s *scene) {
			s.demand(byAda)
			s.third("")
			s.sign(ada)
			s.repo.Git("commit", "--quiet", "--allow-empty", "--message", "signed from here on")
		}, false, "agrees", "by ada@example.com, ssh SHA256:"},
		"accepted for a later commit":                               {func(s *scene) { s.demand(byAda); s.before(&ada, later) }, false, "agrees", "it has no signature; accepted because of that of commit "},
		"accepted for a later commit, with keys that are given":     {func(s *scene) { given(s, ada); s.before(&ada, later) }, false, "agrees", "it has no signature; accepted because of that of commit "},
		"accepted for a later commit that another one signed":       {func(s *scene) { s.demand(byAda); s.before(&eve, later) }, false, "signature differs", "a good one: "},
		"accepted for a later commit that nobody signed":            {func(s *scene) { s.demand(byAda); s.before(nil, later) }, false, "signature differs", "a good one: "},
		"accepted for a later commit, by another one's word":        {func(s *scene) { s.demand(byAda); s.before(&ada, "commit LATER by eve@example.com, ssh SHA256:x") }, false, "signature differs", "by ada@example.com"},
		"accepted for something that is neither a commit nor a tag": {func(s *scene) { s.demand(byAda); s.before(&ada, "commit main by ada@example.com, ssh SHA256:x") }, false, "signature differs", "a good one: "},
		"accepted for a tag":                                        {func(s *scene) { s.demand(byAda); s.third("tag v1 by ada@example.com, ssh SHA256:x") }, false, "unproven", "accepted because of the signature of tag v1"},
		"an unsigned commit, and keys that are given":               {func(s *scene) { given(s, ada); s.third("") }, false, "signature differs", "a good one"},
		"a signed commit, and keys that are given":                  {func(s *scene) { given(s, ada); s.sign(ada); s.third("") }, false, "agrees", "signed by ada@example.com"},
		"a commit that a stranger signed, and keys that are given":  {func(s *scene) { given(s, ada); s.sign(eve); s.third("") }, false, "signature differs", "a good one"},
		"a signature is claimed, and nobody demands any":            {func(s *scene) { s.third("commit COMMIT by ada@example.com, ssh SHA256:x") }, false, "unproven", "no ProfileSource requires signatures now"},
	} {
		t.Run(name, func(t *testing.T) {
			s := newScene(t)
			c.do(s)
			clusters := s.e.Clusters()
			s.v.Management, s.v.Worker = clusters.Management, clusters.Worker
			if c.refused {
				s.v.Management = refusing{clusters.Management, keysName}
			}
			report, err := s.v.Pool(t.Context(), client.ObjectKey{Namespace: clusterfixture.Namespace, Name: "workers"})
			s.do(err)
			text, err := json.MarshalIndent(report, "", "  ")
			s.do(err)
			said := ""
			for _, check := range report.Checks {
				if check.Thing == ThingSignature {
					said += check.Note
					if check.Difference != nil {
						said += check.Difference.Expected
					}
				}
			}
			if report.Verdict != c.verdict || !strings.Contains(said, c.says) || c.says == "" && said != "" {
				t.Errorf("verdict %q, want %q; the signature's check says %q, want %q\n%s", report.Verdict, c.verdict, said, c.says, text)
			}
		})
	}
}
