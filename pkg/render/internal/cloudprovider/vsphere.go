package cloudprovider

import (
	"errors"
	"net/url"
	"strconv"
	"strings"

	"github.com/Masterminds/semver/v3"
)

// The environment variables that replace missing values of vsphereSpec.
const (
	envVSphereAddress       = "VSPHERE_ADDRESS"
	envVSphereUsername      = "VSPHERE_USERNAME"
	envVSpherePassword      = "VSPHERE_PASSWORD"
	envVSphereAllowInsecure = "VSPHERE_ALLOW_INSECURE"
)

// vsphereSpec has the fields of the cloudProviderSpec of vsphere that are used.
type vsphereSpec struct {
	VSphereURL       configVarString `json:"vsphereURL"`
	Username         configVarString `json:"username"`
	Password         configVarString `json:"password"`
	AllowInsecure    configVarBool   `json:"allowInsecure"`
	Cluster          configVarString `json:"cluster"`
	Datacenter       configVarString `json:"datacenter"`
	Folder           configVarString `json:"folder"`
	Datastore        configVarString `json:"datastore"`
	DatastoreCluster configVarString `json:"datastoreCluster"`
}

// cloudConfig returns the cloud-config file of the in-tree vSphere provider. It resolves every
// reference, used or not, because a missing one is a problem. A datastore takes precedence over a
// datastoreCluster.
func (s *vsphereSpec) cloudConfig(_ *semver.Version, r *resolver) string {
	const width = 17
	host, port := s.address(r)
	username := r.textOrEnv("username", s.Username, envVSphereUsername)
	password := r.textOrEnv("password", s.Password, envVSpherePassword)
	insecure := r.boolOrEnv("allowInsecure", s.AllowInsecure, envVSphereAllowInsecure)
	r.resolveText("cluster", s.Cluster) // unused, but required
	datacenter := r.resolveText("datacenter", s.Datacenter)
	folder := r.resolveText("folder", s.Folder)
	if folder == "" {
		folder = "/" + datacenter + "/vm"
	}
	datastore := r.resolveText("datastore", s.Datastore)
	if cluster := r.resolveText("datastoreCluster", s.DatastoreCluster); datastore == "" {
		datastore = cluster
	}

	var w ini
	w.section("Global")
	w.set(width, "user", iniq(username))
	w.set(width, "password", iniq(password))
	w.set(width, "port", iniq(port))
	w.set(width, "insecure-flag", strconv.FormatBool(insecure))
	w.section("Disk")
	w.set(width, "scsicontrollertype", iniq("pvscsi"))
	w.section("Workspace")
	w.set(width, "server", iniq(host))
	w.set(width, "datacenter", iniq(datacenter))
	w.set(width, "folder", iniq(folder))
	w.set(width, "default-datastore", iniq(datastore))
	w.WriteByte('\n')
	w.section("VirtualCenter " + iniq(host))
	w.set(0, "user", iniq(username))
	w.set(0, "password", iniq(password))
	w.set(0, "port", port)
	w.set(0, "datacenters", iniq(datacenter))
	return w.String()
}

// address splits the URL into host and port; the port is empty if the URL has none.
func (s *vsphereSpec) address(r *resolver) (host, port string) {
	const field, scheme = "vsphereURL", "https://"
	text := r.textOrEnv(field, s.VSphereURL, envVSphereAddress)
	if s.VSphereURL.err != nil {
		return "", "" // text has reported the problem
	}
	if !strings.HasPrefix(text, scheme) {
		if strings.Contains(text, "://") {
			r.addProblem(field, errors.New("is not an https URL: write https://HOST, or the host alone"))
			return "", ""
		}
		text = scheme + text
	}
	u, err := url.Parse(text)
	if err != nil { // which would quote the URL, and with it a password
		r.addProblem(field, errors.New("is not a URL: write https://HOST or https://HOST:PORT"))
		return "", ""
	}
	return u.Hostname(), u.Port()
}
