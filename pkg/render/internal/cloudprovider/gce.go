package cloudprovider

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"strconv"

	"github.com/Masterminds/semver/v3"
)

// envGoogleServiceAccount replaces a missing gceSpec.ServiceAccount.
const envGoogleServiceAccount = "GOOGLE_SERVICE_ACCOUNT"

// gceSpec has the fields of the cloudProviderSpec of gce that are used.
type gceSpec struct {
	// ServiceAccount is the base64 of a service account's JSON.
	ServiceAccount configVarString `json:"serviceAccount"`
	Zone           configVarString `json:"zone"`
	Network        configVarString `json:"network"`
	Subnetwork     configVarString `json:"subnetwork"`
	Tags           []string        `json:"tags"`
	Multizone      configVarBool   `json:"multizone"`
	Regional       configVarBool   `json:"regional"`
}

func (s *gceSpec) cloudConfig(_ *semver.Version, r *resolver) string {
	project := s.serviceAccountProject(r)
	var w ini
	w.section("global")
	w.set(0, "project-id", iniq(project))
	w.set(0, "local-zone", iniq(r.resolveText("zone", s.Zone)))
	w.set(0, "network-name", iniq(r.resolveText("network", s.Network)))
	w.set(0, "subnetwork-name", iniq(r.resolveText("subnetwork", s.Subnetwork)))
	w.set(0, "multizone", strconv.FormatBool(r.resolveBool("multizone", s.Multizone)))
	w.set(0, "regional", strconv.FormatBool(r.resolveBool("regional", s.Regional)))
	for i, tag := range s.Tags {
		if err := r.checkOneLine(tag); err != nil {
			r.addProblem("tags["+strconv.Itoa(i)+"]", err)
		}
		w.set(0, "node-tags", iniq(tag))
	}
	return w.String()
}

// serviceAccountProject returns the project of the service account.
func (s *gceSpec) serviceAccountProject(r *resolver) string {
	const field = "serviceAccount"
	r.lines = true // base64 can contain line breaks
	text := r.textOrEnv(field, s.ServiceAccount, envGoogleServiceAccount)
	r.lines = false
	if s.ServiceAccount.err != nil {
		return "" // text has reported the problem
	}
	account, err := base64.StdEncoding.DecodeString(text)
	var key struct {
		ProjectID string `json:"project_id"`
	}
	// The causes would quote a private key.
	switch {
	case text == "":
		r.addProblem(field, errors.New("is empty, and so is "+envGoogleServiceAccount+" in the environment: give the base64 of the service account's JSON"))
	case err != nil:
		r.addProblem(field, errors.New("is not base64: encode the service account's JSON"))
	case json.Unmarshal(account, &key) != nil:
		r.addProblem(field, errors.New("holds no JSON of a service account with a project_id"))
	}
	if err := r.checkOneLine(key.ProjectID); err != nil {
		r.addProblem(field, err)
	}
	return key.ProjectID
}
