package doctor

import (
	"context"
	"fmt"
	"slices"
	"strings"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/osm-gitops/osm-gitops/deploy"
)

const checkPolicies = "policies"

const policiesFile = "admission.yaml"

const (
	policyKind  = "ValidatingAdmissionPolicy"
	bindingKind = "ValidatingAdmissionPolicyBinding"
)

// policyChecks are the checks of ValidatingAdmissionPolicies.
type policyChecks struct{ *examination }

// examinePolicies checks the rules that API servers enforce themselves. They are optional, but an
// incomplete installation is a problem.
func (w policyChecks) examinePolicies(ctx context.Context) {
	wanted, err := deploy.Objects(policiesFile)
	if err != nil {
		w.report(Unknown, checkPolicies, nil, err.Error(), "")
		return
	}
	before := len(w.Findings)
	installed := 0
	tried := true
	for _, c := range w.clusters() {
		n, enforced := w.examinePoliciesIn(ctx, c, wanted)
		installed += n
		tried = tried && enforced
	}
	switch {
	case len(w.Findings) > before:
	case installed == 0:
		w.report(Note, checkPolicies, nil, "the policies of deploy/"+policiesFile+" are not installed: anyone with permission to write profiles and configurations can claim that they come from Git",
			"kubectl apply --server-side -f deploy/"+policiesFile+", see docs/admission.md")
	default:
		f := Finding{Check: checkPolicies, Level: OK, Found: plural(installed, "policy is", "policies are") + " installed, bound, and of this release"}
		if tried {
			f.Found += "; the API server enforces them for you"
		}
		w.addFinding(f)
	}
}

// examinePoliciesIn checks one cluster, and returns the number of policies and whether they are
// enforced.
func (w policyChecks) examinePoliciesIn(ctx context.Context, c *Cluster, wanted []*unstructured.Unstructured) (installed int, enforced bool) {
	missing := []string(nil)
	for _, want := range wanted {
		if want.GetKind() != policyKind && want.GetKind() != bindingKind {
			continue
		}
		have := &unstructured.Unstructured{}
		have.SetGroupVersionKind(want.GroupVersionKind())
		err := c.Client.Get(ctx, types.NamespacedName{Name: want.GetName()}, have)
		switch {
		case apierrors.IsNotFound(err):
			missing = append(missing, want.GetKind()+" "+want.GetName())
			continue
		case err != nil:
			w.addUnreadable(checkPolicies, c, want.GetKind()+" "+want.GetName(), err)
			return installed, false
		}
		if want.GetKind() == policyKind {
			installed++
		}
		// The parameters can be in another namespace.
		if !containsDocument(have.Object["spec"], want.Object["spec"], "namespace") {
			w.report(Warning, checkPolicies, c, fmt.Sprintf("%s %s differs from the one of this release", want.GetKind(), want.GetName()),
				"kubectl apply --server-side -f deploy/"+policiesFile)
		}
	}
	if installed == 0 {
		return 0, false
	}
	if len(missing) > 0 {
		w.report(Problem, checkPolicies, c, joinSome(missing)+" of deploy/"+policiesFile+" not found: a policy without its binding has no effect",
			"kubectl apply --server-side -f deploy/"+policiesFile)
	}
	parameters := w.examinePolicyParameters(ctx, c)
	return installed, parameters != nil && len(missing) == 0 && w.examineEnforcement(ctx, c, parameters)
}

// examinePolicyParameters checks that the policies let the controller write, and returns their parameters;
// nil if there are none.
func (w policyChecks) examinePolicyParameters(ctx context.Context, c *Cluster) *corev1.ConfigMap {
	binding := &unstructured.Unstructured{}
	binding.SetGroupVersionKind(admissionregistrationv1.SchemeGroupVersion.WithKind(bindingKind))
	if err := c.Client.Get(ctx, types.NamespacedName{Name: "osm-gitops-profiles"}, binding); err != nil {
		return nil // reported as missing or unreadable
	}
	key := types.NamespacedName{}
	key.Namespace, _, _ = unstructured.NestedString(binding.Object, "spec", "paramRef", "namespace")
	key.Name, _, _ = unstructured.NestedString(binding.Object, "spec", "paramRef", "name")
	var cm corev1.ConfigMap
	err := c.Client.Get(ctx, key, &cm)
	f := Finding{
		Check: checkPolicies, Level: Problem, Cluster: w.clusterLabel(c), Found: fmt.Sprintf("ConfigMap %s, which names the users that can write for osm-gitops, does not exist: without it, the policies have no effect", key),
		Remedy: "kubectl apply --server-side -f deploy/" + policiesFile,
	}
	switch user := w.userIn(c); {
	case apierrors.IsNotFound(err):
		f.Level = Warning // parameterNotFoundAction: Allow
		w.addFinding(f)
		return nil
	case err != nil:
		w.addUnreadable(checkPolicies, c, "ConfigMap "+key.String(), err)
		return nil
	case trustsUser(&cm, user, groupsOf(user)):
	default:
		f.Found = fmt.Sprintf("ConfigMap %s does not name %s: the policies reject what the controller writes", key, user)
		f.Remedy = "add it to the key users there; if the controller is another user, set " + w.userFlag(c)
		w.addFinding(f)
	}
	return &cm
}

func (w policyChecks) userIn(c *Cluster) string {
	if c != w.Management {
		return w.WorkerUser
	}
	return w.User
}

// trustsUser reports whether the parameters of the policies name a user: directly, by a group,
// or as a ServiceAccount of its namespace.
func trustsUser(cm *corev1.ConfigMap, user string, groups []string) bool {
	lines := func(key string) []string {
		var out []string
		for line := range strings.SplitSeq(cm.Data[key], "\n") {
			if line = strings.TrimSpace(line); line != "" {
				out = append(out, line)
			}
		}
		return out
	}
	account := user[strings.LastIndex(user, ":")+1:]
	if slices.Contains(lines("users"), user) || strings.HasPrefix(user, "system:serviceaccount:") && slices.Contains(lines("serviceAccounts"), account) {
		return true
	}
	return slices.ContainsFunc(groups, func(g string) bool { return slices.Contains(lines("groups"), g) })
}
