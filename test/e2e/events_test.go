package e2e

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	api "github.com/osm-gitops/osm-gitops/pkg/api/gitops/v1alpha1"
)

// A pool's events say what was made, rotated, put back, refused and healed, each with
// what differs, and the same cause once, over restarts too. Metrics say the same in
// numbers, without any credential (security.md 14).
func TestEvents(t *testing.T) {
	s := newSystem(t)
	metrics := freeAddress(t)
	begin := func() {
		s.start("--metrics-address", metrics)
	}
	first := s.git.push(map[string]string{"a.yaml": osp("osp-a", "v1.0.0", "echo one")})
	s.source()
	begin()
	s.ready(first)
	s.pool("web", "osp-a")
	s.served("web", "v1.0.0")
	s.event("web", api.EventConfigCreated, `profile "osp-a" v1.0.0 at commit `+first[:12])
	second := s.git.push(map[string]string{"a.yaml": osp("osp-a", "v1.1.0", "echo two")})
	bootstrap, provisioning := s.served("web", "v1.1.0")
	s.event("web", api.EventConfigRotated, `from profile "osp-a" v1.0.0 at commit `+first[:12]+` to "osp-a" v1.1.0 at commit `+second[:12]+"; changed: provisioning /opt/bin/setup")
	if notes := s.notes("web", api.EventConfigRotated); len(notes) != 1 || strings.Contains(notes[0], "/opt/bin/bootstrap") {
		t.Errorf("rotated as %q", notes)
	}

	s.run("what is put back", func(t *testing.T) {
		s.noError(s.client.Delete(t.Context(), bootstrap))
		s.event("web", api.EventConfigRestored, "put back", "Secret "+bootstrap.Name+" was missing")
		edited := provisioning.DeepCopy()
		edited.Data[api.UserDataKey] = []byte("#cloud-config\n")
		s.noError(s.client.Update(t.Context(), edited))
		s.event("web", api.EventConfigRestored, "put back", "key cloud-config of Secret "+provisioning.Name)
	})
	s.run("numbers", func(t *testing.T) {
		s.counted(metrics,
			fmt.Sprintf(`osm_gitops_pool_info{commit=%q,name="web",namespace=%q,profile="osp-a",version="v1.1.0"} 1`, second, s.pools),
			fmt.Sprintf(`osm_gitops_pool_ready{name="web",namespace=%q} 1`, s.pools),
			fmt.Sprintf(`osm_gitops_pool_user_data_limit_bytes{name="web",namespace=%q} 32768`, s.pools),
			fmt.Sprintf(`osm_gitops_pool_user_data_bytes{name="web",namespace=%q} %s`, s.pools, bootstrap.Annotations[api.AnnotationUserDataBytes]),
			fmt.Sprintf(`osm_gitops_pool_bootstrap_token_expiry_timestamp_seconds{name="web",namespace=%q}`, s.pools),
			`osm_gitops_rotations_total{reason="created"} 1`, `osm_gitops_rotations_total{reason="profile"} 1`, `osm_gitops_rotations_total{reason="restored"} 2`,
			`osm_gitops_render_duration_seconds_count`, `osm_gitops_cluster_reachable{cluster="worker"} 1`,
			fmt.Sprintf(`osm_gitops_source_info{kind="git",name="osps",namespace=%q,ready="True",reason="Succeeded",revision="main@sha1:%s",suspended="false"} 1`, namespace, second),
			fmt.Sprintf(`osm_gitops_source_fetch_duration_seconds_count{name="osps",namespace=%q}`, namespace),
			fmt.Sprintf(`osm_gitops_source_last_fetch_timestamp_seconds{name="osps",namespace=%q}`, namespace),
		)
	})

	// Nothing is wrong with the template as such: it reads what this pool lacks.
	refused := osp("osp-a", "v1.2.0", "echo {{ .NetworkConfig.CIDR }}")
	s.git.push(map[string]string{"a.yaml": refused})
	s.event("web", api.EventProfileError, `rendering profile "osp-a" v1.2.0`, "NetworkConfig")
	s.eventually("the refusal on the configuration", func() error {
		return s.newerRefused("web", "v1.2.0")
	})
	s.counted(metrics,
		fmt.Sprintf(`osm_gitops_pool_ready{name="web",namespace=%q} 0`, s.pools),
		fmt.Sprintf(`osm_gitops_pool_refused{name="web",namespace=%q,reason=%q} 1`, s.pools, api.EventProfileError),
		fmt.Sprintf(`osm_gitops_pool_info{commit=%q,name="web",namespace=%q,profile="osp-a",version="v1.1.0"} 1`, second, s.pools),
	)
	s.stop()
	begin()
	s.run("after a restart", func(t *testing.T) {
		s.counted(metrics, fmt.Sprintf(`osm_gitops_pool_refused{name="web",namespace=%q,reason=%q} 1`, s.pools, api.EventProfileError),
			fmt.Sprintf(`osm_gitops_pool_user_data_bytes{name="web",namespace=%q}`, s.pools))
		if notes := s.notes("web", api.EventProfileError); len(notes) != 1 {
			t.Errorf("the same refusal is told again: %q", notes)
		}
		s.git.push(map[string]string{"a.yaml": osp("osp-a", "v1.1.0", "echo two")})
		s.event("web", api.EventConfigHealed, `profile "osp-a" v1.1.0`)
		s.counted(metrics, fmt.Sprintf(`osm_gitops_pool_ready{name="web",namespace=%q} 1`, s.pools))
	})

	text := s.scrape(metrics)
	for where, secret := range s.secretValues() {
		if strings.Contains(text, secret) {
			t.Errorf("metrics tell the credential of %s", where)
		}
	}
	s.noError(s.client.Delete(t.Context(), s.machineDeployment("web")))
	s.eventually("the pool's series to be gone", func() error {
		if text := s.scrape(metrics); strings.Contains(text, s.pools) {
			return errors.New("they are there")
		}
		return nil
	})
}

// counted waits until a scrape has lines that begin so.
func (s *system) counted(address string, begins ...string) {
	s.t.Helper()
	s.eventually("the metrics", func() error {
		text := "\n" + s.scrape(address)
		for _, line := range begins {
			if !strings.Contains(text, "\n"+line) {
				return fmt.Errorf("no line begins with %s", line)
			}
		}
		return nil
	})
}

func (s *system) scrape(address string) string {
	s.t.Helper()
	res, err := http.Get("http://" + address + "/metrics") //nolint:noctx // a page of this machine
	if err != nil {
		return "" // not listening yet
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	if err != nil {
		s.t.Fatal(err)
	}
	return string(b)
}

// secretValues are the tokens and keys that the controller handles.
func (s *system) secretValues() map[string]string {
	s.t.Helper()
	out := map[string]string{}
	var getter, key corev1.Secret
	s.noError(s.get(api.NamespaceCloudInitSettings, api.SecretGetterToken, &getter))
	s.noError(s.get(namespace, api.KeySecretName, &key))
	out["the getter"], out["digests"] = string(getter.Data["token"]), string(key.Data["key"])
	for _, token := range s.tokens() {
		out[token.Name] = string(token.Data["token-secret"])
	}
	for where, value := range out {
		if len(value) < 16 || len(out) < 3 {
			s.t.Errorf("%s has %d characters, of %d credentials: the test shows nothing", where, len(value), len(out))
		}
	}
	return out
}
