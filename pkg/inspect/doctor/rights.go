package doctor

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"golang.org/x/sync/errgroup"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/osm-gitops/osm-gitops/deploy"
)

const checkRights = "rights"

// questions bounds the concurrent requests.
const questions = 8

// optional names the only feature that needs a resource.
var optional = map[string]string{
	"gitrepositories":                 "ProfileSources with sourceRef",
	"ocirepositories":                 "ProfileSources with sourceRef",
	"buckets":                         "ProfileSources with sourceRef",
	"externalartifacts":               "ProfileSources with sourceRef",
	"serviceaccounts":                 "--bootstrap-token-service-account-name",
	"leases":                          "--leader-elect",
	"mutatingwebhookconfigurations":   "the admission webhooks",
	"validatingwebhookconfigurations": "the admission webhooks",
	"endpointslices":                  "clusters without ConfigMap kube-public/cluster-info",
}

// permission is a permission that the controller needs, and whether it has it.
type permission struct {
	authorizationv1.ResourceAttributes
	file    string // the file below deploy/ that grants it
	allowed bool
}

// resourceDescription names the object of a permission.
func (n permission) resourceDescription() string {
	out := n.Resource
	if n.Subresource != "" {
		out += "/" + n.Subresource
	}
	if n.Group != "" {
		out += "." + n.Group
	}
	if n.Name != "" {
		out += " " + n.Name
	}
	if n.Namespace != "" {
		return out + " in " + n.Namespace
	}
	return out
}

// optionalFor names the only feature that needs a permission; "" if it is always needed.
func (n permission) optionalFor() string {
	switch {
	case n.Resource == "configmaps" && n.Verb == "update":
		return "--publish-snapshot"
	case n.Resource == "serviceaccounts" && n.Namespace == settingsNamespace:
		return ""
	}
	return optional[n.Resource]
}

// permissionChecks are the checks of what users may do.
type permissionChecks struct{ *examination }

// examinePermissions checks every permission in deploy/.
func (w permissionChecks) examinePermissions(ctx context.Context) {
	if !w.hasWorkerCluster() {
		w.examinePermissionsIn(ctx, w.Management, w.User, "rbac.yaml")
		return
	}
	w.examinePermissionsIn(ctx, w.Management, w.User, "two-clusters/management.yaml")
	w.examinePermissionsIn(ctx, w.Worker, w.WorkerUser, "two-clusters/worker.yaml")
}

func (w permissionChecks) examinePermissionsIn(ctx context.Context, in *Cluster, user, file string) {
	needs, err := w.listFilePermissions(in, file)
	if err == nil && w.hasWebhookConfiguration(ctx, in) {
		var more []*permission
		more, err = w.listFilePermissions(in, "webhook.yaml")
		needs = append(needs, more...)
	}
	if err == nil {
		var self string
		self, err = whoAmI(ctx, in)
		if err == nil {
			err = reviewAccess(ctx, in, user, self == user, needs)
		}
	}
	if err != nil {
		f := Finding{Check: checkRights, Level: Unknown, Cluster: w.clusterLabel(in), Found: fmt.Sprintf("the permissions of %s cannot be checked: %v", user, err)}
		if apierrors.IsForbidden(err) {
			f.Found = "you have no permission to check those of " + user
			f.Remedy = "run osm-gitops doctor as a user who can create subjectaccessreviews, such as a cluster admin"
		}
		w.addFinding(f)
		return
	}
	w.addPermissionFindings(in, user, needs)
}

// listFilePermissions lists the permissions of the roles in a file. The file is written for
// --namespace kube-system; in a separate worker cluster that is the namespace of the lease.
func (w permissionChecks) listFilePermissions(in *Cluster, file string) ([]*permission, error) {
	objects, err := deploy.Objects(file)
	if err != nil {
		return nil, err
	}
	var out []*permission
	for _, o := range objects {
		if o.GetKind() != "Role" && o.GetKind() != "ClusterRole" {
			continue
		}
		var role rbacv1.Role // a ClusterRole has the same rules
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, &role); err != nil {
			return nil, fmt.Errorf("deploy/%s: %s %s: %w", file, o.GetKind(), o.GetName(), err)
		}
		if role.Namespace == metav1.NamespaceSystem && in == w.Management {
			role.Namespace = w.Namespace
		}
		for _, rule := range role.Rules {
			for _, a := range expand(rule) {
				a.Namespace = role.Namespace
				out = append(out, &permission{ResourceAttributes: a, file: file})
			}
		}
	}
	return out, nil
}

// expand lists the permissions of a rule individually.
func expand(rule rbacv1.PolicyRule) []authorizationv1.ResourceAttributes {
	names := rule.ResourceNames
	if len(names) == 0 {
		names = []string{""}
	}
	var out []authorizationv1.ResourceAttributes
	for _, group := range rule.APIGroups {
		for _, combined := range rule.Resources {
			resource, sub, _ := strings.Cut(combined, "/")
			for _, name := range names {
				for _, verb := range rule.Verbs {
					out = append(out, authorizationv1.ResourceAttributes{Verb: verb, Group: group, Resource: resource, Subresource: sub, Name: name})
				}
			}
		}
	}
	return out
}

// whoAmI returns the name of the current user.
func whoAmI(ctx context.Context, in *Cluster) (string, error) {
	who := &authenticationv1.SelfSubjectReview{}
	if err := in.Client.Create(ctx, who); err != nil {
		return "", fmt.Errorf("asking who you are: %w", err)
	}
	return who.Status.UserInfo.Username, nil
}

// reviewAccess asks the API server whether a user has each permission, and sets allowed. Users need
// no permission to ask about themselves.
func reviewAccess(ctx context.Context, in *Cluster, user string, self bool, needs []*permission) error {
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(questions)
	for _, n := range needs {
		g.Go(func() (err error) {
			n.allowed, err = isAccessAllowed(ctx, in, user, self, n.ResourceAttributes)
			return err
		})
	}
	return g.Wait()
}

func isAccessAllowed(ctx context.Context, in *Cluster, user string, self bool, a authorizationv1.ResourceAttributes) (bool, error) {
	if self {
		r := &authorizationv1.SelfSubjectAccessReview{Spec: authorizationv1.SelfSubjectAccessReviewSpec{ResourceAttributes: &a}}
		err := in.Client.Create(ctx, r)
		return r.Status.Allowed, err
	}
	r := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{User: user, Groups: groupsOf(user), ResourceAttributes: &a}}
	err := in.Client.Create(ctx, r)
	return r.Status.Allowed, err
}

// groupsOf returns the groups of every user of this kind:
// https://kubernetes.io/docs/reference/access-authn-authz/authentication/#service-account-tokens
func groupsOf(user string) []string {
	groups := []string{"system:authenticated"}
	if account, ok := strings.CutPrefix(user, "system:serviceaccount:"); ok {
		namespace, _, _ := strings.Cut(account, ":")
		groups = append(groups, "system:serviceaccounts", "system:serviceaccounts:"+namespace)
	}
	return groups
}

// missingPermissions returns the first missing permission to each object, and all missing verbs.
func missingPermissions(needs []*permission) (first []*permission, verbs map[string][]string) {
	verbs = map[string][]string{}
	for _, n := range needs {
		if n.allowed {
			continue
		}
		if verbs[n.resourceDescription()] == nil {
			first = append(first, n)
		}
		if !slices.Contains(verbs[n.resourceDescription()], n.Verb) {
			verbs[n.resourceDescription()] = append(verbs[n.resourceDescription()], n.Verb)
		}
	}
	return first, verbs
}

// addPermissionFindings reports missing permissions, with a line for each object.
func (w permissionChecks) addPermissionFindings(in *Cluster, user string, needs []*permission) {
	lacks, verbs := missingPermissions(needs)
	if !slices.ContainsFunc(needs, func(n *permission) bool { return n.allowed }) {
		w.report(Problem, checkRights, in, fmt.Sprintf("%s has none of the %d permissions that the controller needs", user, len(needs)),
			fmt.Sprintf("if the controller is another user, set %s; otherwise kubectl apply --server-side -f deploy/%s", w.userFlag(in), needs[0].file))
		return
	}
	for _, n := range lacks {
		f := Finding{
			Check: checkRights, Level: Problem, Cluster: w.clusterLabel(in), Found: fmt.Sprintf("%s cannot %s %s", user, strings.Join(verbs[n.resourceDescription()], ", "), n.resourceDescription()),
			Remedy: fmt.Sprintf("kubectl apply --server-side -f deploy/%s; if the controller is another user, set %s", n.file, w.userFlag(in)),
		}
		if use := n.optionalFor(); use != "" {
			f.Level, f.Found = Warning, f.Found+", which is needed for "+use
		}
		w.addFinding(f)
	}
	if len(lacks) == 0 {
		w.report(OK, checkRights, in, fmt.Sprintf("%s has all %d permissions that it needs", user, len(needs)), "")
	}
}

// userFlag names the flag with the controller's user in a cluster.
func (d *Doctor) userFlag(in *Cluster) string {
	if in != d.Management {
		return "--worker-user"
	}
	return "--user (KKP: " + kkpUser + ")"
}
