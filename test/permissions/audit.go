package permissions

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
)

// maxLine bounds a line of an audit log of level Metadata.
const maxLine = 4 << 20 // 4 MiB

// Request is a request to an API server.
type Request struct {
	Verb, Group, Resource, Namespace, Name string
	// Forbidden says that no right allowed it.
	Forbidden bool
	// Denied says that a right allowed it, and the controller's policy did not.
	Denied bool
}

// policy is how an API server names the policy of deploy/controller-policy.yaml.
const policy = "ValidatingAdmissionPolicy 'osm-gitops-controller"

func (q Request) String() string {
	return Right{Namespace: q.Namespace, Verb: q.Verb, Group: q.Group, Resource: q.Resource, Name: q.Name}.String()
}

// Requests returns the distinct requests of a user, from an audit log of kind audit.k8s.io/v1.
// Paths that are not resources, such as /version, are omitted.
func Requests(log io.Reader, user string) (map[Request]int, error) {
	out := map[Request]int{}
	lines := bufio.NewScanner(log)
	lines.Buffer(nil, maxLine)
	for n := 1; lines.Scan(); n++ {
		var e struct {
			Stage, Verb string
			UserAgent   string
			User        struct{ Username string }
			ObjectRef   *struct{ Resource, Subresource, APIGroup, Namespace, Name string }
			Annotations map[string]string
			// ResponseStatus has what the API server answered a request that failed.
			ResponseStatus struct{ Message string }
		}
		if err := json.Unmarshal(lines.Bytes(), &e); err != nil {
			return nil, fmt.Errorf("reading line %d of the audit log: %w", n, err)
		}
		if e.User.Username != user || e.ObjectRef == nil || strings.HasSuffix(e.UserAgent, doctorAgent) {
			continue
		}
		q := Request{
			Verb: e.Verb, Group: e.ObjectRef.APIGroup, Resource: e.ObjectRef.Resource,
			Namespace: e.ObjectRef.Namespace, Name: e.ObjectRef.Name,
			// 403 is also what admission answers, to whom has the right.
			Forbidden: e.Annotations["authorization.k8s.io/decision"] == "forbid",
			Denied:    strings.Contains(e.ResponseStatus.Message, policy),
		}
		if e.ObjectRef.Subresource != "" {
			q.Resource += "/" + e.ObjectRef.Subresource
		}
		if q.Namespace == "" {
			q.Namespace = Anywhere
		}
		out[q]++
	}
	return out, lines.Err()
}

// doctorAgent ends the User-Agent of osm-gitops doctor, which looks at more than the
// controller may.
const doctorAgent = " (doctor)"

// DeniedRequests returns an error with the requests of a user that were denied according to the audit log
// at a path, and that no rule in files allows. An API server denies all requests until it has read
// its roles: a request that they allow does not count.
func DeniedRequests(log, user string, files ...string) error {
	requests, err := readLog(log, user)
	if err != nil {
		return err
	}
	var rules []Rule
	for _, file := range files {
		more, err := Read(file)
		if err != nil {
			return err
		}
		rules = append(rules, more...)
	}
	var errs []error
	for q, n := range requests {
		if q.Denied {
			errs = append(errs, fmt.Errorf("rights: deploy/controller-policy.yaml refused the controller %d times to %s", n, q))
		}
		if q.Forbidden && !Allowed(rules, q) {
			errs = append(errs, fmt.Errorf("rights: the controller was forbidden %d times to %s: %s lacks it, or the controller should not ask", n, q, strings.Join(files, " and ")))
		}
	}
	return errors.Join(errs...)
}

func readLog(path, user string) (map[Request]int, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	requests, err := Requests(f, user)
	if err == nil && len(requests) == 0 {
		err = fmt.Errorf("%s has no request of %s", path, user)
	}
	return requests, err
}

// Allowed says whether any of the rules allows a request.
func Allowed(rules []Rule, q Request) bool {
	for _, rule := range rules {
		for _, r := range rule.Rights() {
			if r.Allows(q) {
				return true
			}
		}
	}
	return false
}

// Unused are the rights of rules that no request needed, in their order.
func Unused(rules []Rule, requests map[Request]int) []Right {
	var out []Right
	for _, rule := range rules {
	rights:
		for _, r := range rule.Rights() {
			for q := range requests {
				if !q.Forbidden && r.Allows(q) {
					continue rights
				}
			}
			out = append(out, r)
		}
	}
	return out
}
