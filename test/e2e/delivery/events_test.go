package delivery

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	api "github.com/osm-gitops/osm-gitops/pkg/api/gitops/v1alpha1"
	"github.com/osm-gitops/osm-gitops/test/e2e"
)

// A pool's events say what was made, rotated, put back, refused and healed, each with
// what differs, and the same cause once, over restarts too. Metrics say the same in
// numbers, without any credential (security.md 14).
func TestEvents(t *testing.T) {
	s := newSystem(t)
	metrics := e2e.FreeAddress(t)
	begin := func() {
		s.Start("--metrics-address", metrics)
	}
	first := s.Git.Push(map[string]string{"a.yaml": e2e.OSP("osp-a", "v1.0.0", "echo one")})
	s.Source()
	begin()
	s.Ready(first)
	s.Pool("web", "osp-a")
	s.Served("web", "v1.0.0")
	s.Event("web", api.EventConfigCreated, `profile "osp-a" v1.0.0 at commit `+first[:12])
	second := s.Git.Push(map[string]string{"a.yaml": e2e.OSP("osp-a", "v1.1.0", "echo two")})
	bootstrap, provisioning := s.Served("web", "v1.1.0")
	s.Event("web", api.EventConfigRotated, `from profile "osp-a" v1.0.0 at commit `+first[:12]+` to "osp-a" v1.1.0 at commit `+second[:12]+"; changed: provisioning /opt/bin/setup")
	if notes := s.Events("web", api.EventConfigRotated); len(notes) != 1 || strings.Contains(notes[0], "/opt/bin/bootstrap") {
		t.Errorf("rotated as %q", notes)
	}

	s.Run("what is put back", func(t *testing.T) {
		s.NoError(s.Client.Delete(t.Context(), bootstrap))
		s.Event("web", api.EventConfigRestored, "restored changed objects", "Secret "+bootstrap.Name+" was missing")
		edited := provisioning.DeepCopy()
		edited.Data[api.UserDataKey] = []byte("#cloud-config\n")
		s.NoError(s.Client.Update(t.Context(), edited))
		s.Event("web", api.EventConfigRestored, "restored changed objects", "key cloud-config of Secret "+provisioning.Name)
	})
	s.Run("numbers", func(t *testing.T) {
		s.counted(metrics,
			fmt.Sprintf(`osm_gitops_pool_info{commit=%q,name="web",namespace=%q,profile="osp-a",version="v1.1.0"} 1`, second, s.Pools),
			fmt.Sprintf(`osm_gitops_pool_ready{name="web",namespace=%q} 1`, s.Pools),
			fmt.Sprintf(`osm_gitops_pool_user_data_limit_bytes{name="web",namespace=%q} 32768`, s.Pools),
			fmt.Sprintf(`osm_gitops_pool_user_data_bytes{name="web",namespace=%q} %s`, s.Pools, bootstrap.Annotations[api.AnnotationUserDataBytes]),
			fmt.Sprintf(`osm_gitops_pool_bootstrap_token_expiry_timestamp_seconds{name="web",namespace=%q}`, s.Pools),
			`osm_gitops_rotations_total{reason="created"} 1`, `osm_gitops_rotations_total{reason="profile"} 1`, `osm_gitops_rotations_total{reason="restored"} 2`,
			`osm_gitops_render_duration_seconds_count`, `osm_gitops_cluster_reachable{cluster="worker"} 1`,
			fmt.Sprintf(`osm_gitops_source_info{kind="git",name="osps",namespace=%q,ready="True",reason="Succeeded",revision="main@sha1:%s",suspended="false"} 1`, e2e.Namespace, second),
			fmt.Sprintf(`osm_gitops_source_fetch_duration_seconds_count{name="osps",namespace=%q}`, e2e.Namespace),
			fmt.Sprintf(`osm_gitops_source_last_fetch_timestamp_seconds{name="osps",namespace=%q}`, e2e.Namespace),
		)
	})

	// Nothing is wrong with the template as such: it reads what this pool lacks.
	refused := e2e.OSP("osp-a", "v1.2.0", "echo {{ .NetworkConfig.CIDR }}")
	s.Git.Push(map[string]string{"a.yaml": refused})
	s.Event("web", api.EventProfileError, `rendering profile "osp-a" v1.2.0`, "NetworkConfig")
	s.Eventually("the refusal on the configuration", func() error {
		return s.CheckRejectionNoted("web", "v1.2.0")
	})
	s.counted(metrics,
		fmt.Sprintf(`osm_gitops_pool_ready{name="web",namespace=%q} 0`, s.Pools),
		fmt.Sprintf(`osm_gitops_pool_refused{name="web",namespace=%q,reason=%q} 1`, s.Pools, api.EventProfileError),
		fmt.Sprintf(`osm_gitops_pool_info{commit=%q,name="web",namespace=%q,profile="osp-a",version="v1.1.0"} 1`, second, s.Pools),
	)
	s.Stop()
	begin()
	s.Run("after a restart", func(t *testing.T) {
		s.counted(metrics, fmt.Sprintf(`osm_gitops_pool_refused{name="web",namespace=%q,reason=%q} 1`, s.Pools, api.EventProfileError),
			fmt.Sprintf(`osm_gitops_pool_user_data_bytes{name="web",namespace=%q}`, s.Pools))
		if notes := s.Events("web", api.EventProfileError); len(notes) != 1 {
			t.Errorf("the same refusal is told again: %q", notes)
		}
		s.Git.Push(map[string]string{"a.yaml": e2e.OSP("osp-a", "v1.1.0", "echo two")})
		s.Event("web", api.EventConfigHealed, `profile "osp-a" v1.1.0`)
		s.counted(metrics, fmt.Sprintf(`osm_gitops_pool_ready{name="web",namespace=%q} 1`, s.Pools))
	})

	text := s.Scrape(metrics)
	for where, secret := range s.secretValues() {
		if strings.Contains(text, secret) {
			t.Errorf("metrics tell the credential of %s", where)
		}
	}
	s.NoError(s.Client.Delete(t.Context(), s.MachineDeployment("web")))
	s.Eventually("the pool's series to be gone", func() error {
		if text := s.Scrape(metrics); strings.Contains(text, s.Pools) {
			return errors.New("they are there")
		}
		return nil
	})
}

// counted waits until a scrape has lines that begin so.
func (s *system) counted(address string, begins ...string) {
	s.T.Helper()
	s.Eventually("the metrics", func() error {
		text := "\n" + s.Scrape(address)
		for _, line := range begins {
			if !strings.Contains(text, "\n"+line) {
				return fmt.Errorf("no line begins with %s", line)
			}
		}
		return nil
	})
}

// secretValues are the tokens and keys that the controller handles.
func (s *system) secretValues() map[string]string {
	s.T.Helper()
	out := map[string]string{}
	var getter, key corev1.Secret
	s.NoError(s.Get(api.NamespaceCloudInitSettings, api.SecretGetterToken, &getter))
	s.NoError(s.Get(e2e.Namespace, api.KeySecretName, &key))
	out["the getter"], out["digests"] = string(getter.Data["token"]), string(key.Data["key"])
	for _, token := range s.Tokens() {
		out[token.Name] = string(token.Data["token-secret"])
	}
	for where, value := range out {
		if len(value) < 16 || len(out) < 3 {
			s.T.Errorf("%s has %d characters, of %d credentials: the test shows nothing", where, len(value), len(out))
		}
	}
	return out
}
