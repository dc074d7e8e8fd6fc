package render

import (
	"strings"

	osm "github.com/osm-gitops/osm-gitops/pkg/api/osm/v1alpha1"
	"github.com/osm-gitops/osm-gitops/pkg/render/internal/invalid"
	"github.com/osm-gitops/osm-gitops/pkg/render/internal/templates"
)

// checkShape renders a profile for one pool that has every credential, once with placeholders
// and once with stand-ins, and compares the outputs. Errors of that rendering are not findings:
// then nothing is compared.
func (c *compiled) checkShape(p Profile) []*invalid.Error {
	if len(p.Spec.SupportedCloudProviders) == 0 {
		return nil
	}
	in := placeholderInput(p)
	redacted, _ := in.ReplaceSecrets()
	_, shape, problems := redacted.render(c, digestRecipe)
	_, other, more := in.render(c, digestRecipe)
	if len(problems) > 0 || len(more) > 0 {
		return nil
	}
	return c.compareShapes(redacted, in, digestRecipe, shape, other)
}

// errDepends is the cause of a problem that only rendering finds.
var errDepends = &CredentialError{}

// compareShapes compares two renderings of a profile, of inputs that differ only in credentials:
// their outputs must be the same except for the credentials.
func (c *compiled) compareShapes(a, b Input, digest string, first, second uint64) []*invalid.Error {
	if first == second {
		return nil
	}
	t := &templates.ExecutionPath{}
	_, _, _ = a.renderRecordingPath(c, digest, t) // both succeeded before
	t.BeginSecondRun()
	_, _, _ = b.renderRecordingPath(c, digest, t)
	parted := t.FirstDifference()
	parted.Err = errDepends
	return []*invalid.Error{parted}
}

// placeholderText is the text in a stand-in for a credential. Stand-ins have the form and the length of
// real credentials, and nothing in common with the placeholders.
const placeholderText = "Stand-In_0123456789~"

// placeholderInput returns a pool and a cluster for a profile, with a stand-in for each credential
// that Split replaces.
func placeholderInput(p Profile) Input {
	const (
		userInfo = "node:" + placeholderText + "%40@" // %40 is an "@" of the password
		jwt      = "eyJhbGciOiJSUzI1NiIsImtpZCI6I"
	)
	cloudConfig := "[Global]\nuser = \"node\"\nsecret = \"" + placeholderText + "\"\n"
	in := Input{
		Profile: p,
		Pool: Pool{
			Name: "workers", Namespace: "kube-system", KubeletVersion: "1.36.0",
			CloudProvider: p.Spec.SupportedCloudProviders[0].Name, OperatingSystem: p.Spec.OSName, OverwriteCloudConfig: &cloudConfig,
		},
		Settings: Settings{
			ClusterDNS: []string{"10.96.0.10"}, Namespace: "kube-system",
			NodeHTTPProxy: "http://" + userInfo + "proxy.example.com:3128", NodeNoProxy: ".svc,localhost,10.0.0.0/8,http://" + userInfo + "example.com",
			NodeRegistryMirrors:           "https://" + userInfo + "hub.example.com",
			NodeContainerdRegistryMirrors: []string{"registry.k8s.io=https://" + userInfo + "k8s.example.com"},
			DownloadMirrors:               map[string]string{},
			RegistryCredentials: map[string]RegistryCredential{
				"registry.example.com": {Username: "node", Password: placeholderText},
				"auth.example.com":     {Auth: "bm9kZTpTdGFuZC1Jbl8wMTIzNDU2Nzg5fg=="},
				"id.example.com":       {IdentityToken: placeholderText},
			},
		},
		Cluster: Cluster{
			Server:         "https://api.example.com:6443",
			APIServerToken: jwt + strings.Repeat("nN0_", 30) + "." + strings.Repeat("cC1-", 150) + "." + strings.Repeat("sS2_", 85),
			BootstrapToken: "s7and1.9n3f7b2k8d4m6q1x",
		},
	}
	for _, publisher := range []string{"cni", "crictl", "docker", "kubernetes"} { // those of profiles/README.md
		in.Settings.DownloadMirrors[publisher] = "https://" + userInfo + "mirror.example.com/" + publisher
	}
	spec := &in.Pool.OperatingSystemSpec
	switch p.Spec.OSName {
	case osm.OperatingSystemFlatcar:
		spec.Flatcar = &FlatcarSpec{ProvisioningUtility: p.utility()}
	case osm.OperatingSystemRHEL:
		spec.RHEL = &RHELSpec{
			RHELSubscriptionManagerUser: "node@example.com", RHELSubscriptionManagerPassword: placeholderText, RHSMOfflineToken: placeholderText,
			RHELOrganizationName: "example", RHELActivationKey: placeholderText,
		}
	}
	return in
}
