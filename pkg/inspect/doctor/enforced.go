package doctor

import (
	"context"
	"fmt"
	"strings"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	api "github.com/osm-gitops/osm-gitops/pkg/api/gitops/v1alpha1"
)

const (
	// trials is how often a policy is tried, and trialPause the time between trials: an API
	// server starts to enforce a new policy within seconds.
	// server follows policies that were applied a moment ago within seconds.
	trials     = 6
	trialPause = time.Second
)

// examineEnforcement checks that the API server enforces the policies for the current user, with a
// dry-run Secret that they reject. It returns false if that cannot be decided: for users
// who cannot write there or whom the policies exempt.
//
// After the deletion of the last policy that has a ConfigMap as its parameters, an API
// server never reads a ConfigMap again, and does not enforce policies that are installed
// afterwards: it stops a shared informer, and a stopped informer does not start again
// (ensureParamsForPolicyLocked of k8s.io/apiserver v0.36.3,
// pkg/admission/plugin/policy/generic/policy_source.go).
func (w policyChecks) examineEnforcement(ctx context.Context, c *Cluster, parameters *corev1.ConfigMap) bool {
	for trial := 1; ; trial++ {
		probe := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{
			Namespace: api.NamespaceCloudInitSettings, GenerateName: "osm-gitops-doctor-", Annotations: map[string]string{api.AnnotationCommit: "none"},
		}}
		err := c.Client.Create(ctx, probe, client.DryRunAll)
		switch {
		case err != nil && strings.Contains(err.Error(), policyKind):
			return true
		case err != nil:
			return false
		case trial < trials:
			select {
			case <-time.After(trialPause):
				continue
			case <-ctx.Done():
				return false
			}
		}
		break
	}
	me := &authenticationv1.SelfSubjectReview{}
	if err := c.Client.Create(ctx, me); err != nil || trustsUser(parameters, me.Status.UserInfo.Username, me.Status.UserInfo.Groups) {
		return false
	}
	w.report(Problem, checkPolicies, c, fmt.Sprintf("the policies are installed, but the API server does not enforce them for %s: they may have been deleted before, and it reads no ConfigMap for policies that were installed again", me.Status.UserInfo.Username),
		"restart the API server, each replica of it; see docs/admission.md, Taking policies away")
	return false
}
