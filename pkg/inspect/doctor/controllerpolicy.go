package doctor

import (
	"context"
	"fmt"
	"slices"
	"strings"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/osm-gitops/osm-gitops/deploy"
)

const checkControllerPolicy = "controller-policy"

// The policy of each installation, and its name.
const (
	controllerPolicyFile = "controller-policy.yaml"
	kkpPolicyFile        = "kkp/user-cluster.yaml"
	controllerPolicyName = "osm-gitops-controller"
)

// kkpUser is the controller's user in user clusters of KKP, which is no ServiceAccount.
const kkpUser = "operating-system-manager"

// examineControllerPolicies checks for the policy that limits the controller's permissions.
// Without it, the controller's ServiceAccount is equivalent to a cluster admin.
func (w policyChecks) examineControllerPolicies(ctx context.Context) {
	for _, c := range w.clusters() {
		w.examineControllerPolicyIn(ctx, c)
	}
}

// usernameCondition returns the condition of a policy for a user.
func usernameCondition(user string) string { return "request.userInfo.username == '" + user + "'" }

// examineControllerPolicyIn searches one cluster for a policy that names the controller's user,
// and for its binding. Several controllers can share a cluster, so the names vary.
func (w policyChecks) examineControllerPolicyIn(ctx context.Context, c *Cluster) {
	var policies admissionregistrationv1.ValidatingAdmissionPolicyList
	if err := c.Client.List(ctx, &policies); err != nil {
		w.addUnreadable(checkControllerPolicy, c, policyKind+" objects", err)
		return
	}
	var bindings admissionregistrationv1.ValidatingAdmissionPolicyBindingList
	if err := c.Client.List(ctx, &bindings); err != nil {
		w.addUnreadable(checkControllerPolicy, c, bindingKind+" objects", err)
		return
	}
	about := func(user string) bool {
		return slices.ContainsFunc(policies.Items, func(p admissionregistrationv1.ValidatingAdmissionPolicy) bool {
			return strings.HasPrefix(p.Name, controllerPolicyName) && len(p.Spec.MatchConditions) > 0 && p.Spec.MatchConditions[0].Expression == usernameCondition(user)
		})
	}
	user, file := w.userIn(c), controllerPolicyFile
	if user == kkpUser || about(kkpUser) && !about(user) {
		user, file = kkpUser, kkpPolicyFile
	}
	wanted, err := deploy.Objects(file)
	if err != nil {
		w.report(Unknown, checkControllerPolicy, nil, err.Error(), "")
		return
	}
	remedy := "kubectl apply --server-side -f deploy/" + file
	want := wanted[slices.IndexFunc(wanted, func(o *unstructured.Unstructured) bool {
		return o.GetKind() == policyKind && o.GetName() == controllerPolicyName
	})]
	condition, _, _ := unstructured.NestedSlice(want.Object, "spec", "matchConditions")
	shipped, _ := condition[0].(map[string]any)["expression"].(string)
	names := usernameCondition(user)
	if names != shipped {
		remedy = fmt.Sprintf("name %s in matchConditions of deploy/%s and apply it, or upgrade the chart's release; if the controller is another user, set %s", user, file, w.userFlag(c))
	}

	var others []string
	var have *admissionregistrationv1.ValidatingAdmissionPolicy
	for i := range policies.Items {
		p := &policies.Items[i]
		switch {
		case !strings.HasPrefix(p.Name, want.GetName()):
		case len(p.Spec.MatchConditions) > 0 && p.Spec.MatchConditions[0].Expression == names:
			have = p
		default:
			others = append(others, p.Name)
		}
	}
	if have == nil {
		text := fmt.Sprintf("%s %s not found: the permissions of %s are not limited, and anyone with its token can become a cluster admin", policyKind, want.GetName(), user)
		if len(others) > 0 {
			text = fmt.Sprintf("%s %s is about another user than %s, whose permissions are not limited: anyone with its token can become a cluster admin", policyKind, joinSome(others), user)
		}
		w.report(Problem, checkControllerPolicy, c, text, remedy)
		return
	}
	if !slices.ContainsFunc(bindings.Items, func(b admissionregistrationv1.ValidatingAdmissionPolicyBinding) bool {
		return enforcesPolicy(&b, have.Name)
	}) {
		w.report(Problem, checkControllerPolicy, c, fmt.Sprintf("no %s enforces %s %s everywhere: without it the policy has no effect, and anyone with the token of %s can become a cluster admin", bindingKind, policyKind, have.Name, user), remedy)
		return
	}
	_ = unstructured.SetNestedField(condition[0].(map[string]any), names, "expression")
	_ = unstructured.SetNestedSlice(want.Object, condition, "spec", "matchConditions")
	spec, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&have.Spec)
	if err != nil || !containsDocument(spec, want.Object["spec"]) {
		w.report(Problem, checkControllerPolicy, c, fmt.Sprintf("%s %s, which limits the permissions of the controller, differs from the one of this release", policyKind, have.Name), remedy)
		return
	}
	w.report(OK, checkControllerPolicy, c, fmt.Sprintf("%s %s of this release limits what %s can write", policyKind, have.Name, user), "")
}

// enforcesPolicy reports whether a binding enforces a policy for everything that the policy matches.
func enforcesPolicy(b *admissionregistrationv1.ValidatingAdmissionPolicyBinding, policy string) bool {
	return b.Spec.PolicyName == policy && b.Spec.ParamRef == nil && b.Spec.MatchResources == nil && slices.Contains(b.Spec.ValidationActions, admissionregistrationv1.Deny)
}
