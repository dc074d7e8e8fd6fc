package cloudprovider

import (
	"encoding/json"
	"errors"
	"strconv"

	"github.com/Masterminds/semver/v3"
)

// The environment variables that replace missing values of openstackSpec.
const (
	envOSAuthURL                     = "OS_AUTH_URL"
	envOSRegionName                  = "OS_REGION_NAME"
	envOSDomainName                  = "OS_DOMAIN_NAME"
	envOSApplicationCredentialID     = "OS_APPLICATION_CREDENTIAL_ID"
	envOSApplicationCredentialSecret = "OS_APPLICATION_CREDENTIAL_SECRET" //nolint:gosec // a name
	envOSUserName                    = "OS_USER_NAME"
	envOSPassword                    = "OS_PASSWORD"
	envOSProjectName                 = "OS_PROJECT_NAME"
	envOSTenantName                  = "OS_TENANT_NAME"
	envOSProjectID                   = "OS_PROJECT_ID"
	envOSTenantID                    = "OS_TENANT_ID"
)

// openstackSpec has the fields of the cloudProviderSpec of openstack that are used.
type openstackSpec struct {
	IdentityEndpoint            configVarString `json:"identityEndpoint"`
	Region                      configVarString `json:"region"`
	DomainName                  configVarString `json:"domainName"`
	ApplicationCredentialID     configVarString `json:"applicationCredentialID"`
	ApplicationCredentialSecret configVarString `json:"applicationCredentialSecret"`
	Username                    configVarString `json:"username"`
	Password                    configVarString `json:"password"`
	ProjectName                 configVarString `json:"projectName"`
	TenantName                  configVarString `json:"tenantName"`
	ProjectID                   configVarString `json:"projectID"`
	TenantID                    configVarString `json:"tenantID"`
	TrustDevicePath             configVarBool   `json:"trustDevicePath"`
	NodeVolumeAttachLimit       json.RawMessage `json:"nodeVolumeAttachLimit"`
}

// Settings that only some kubelets of OpenStack read. Pre-releases satisfy
// neither.
var (
	managesSecurityGroups = mustConstraint("~1.9.10 || ~1.10.6 || ~1.11.1 || >=1.12")
	ignoresVolumeZone     = mustConstraint(">=1.9")
)

func (s *openstackSpec) cloudConfig(kubelet *semver.Version, r *resolver) string {
	const globalWidth, credentialWidth, storageWidth = 11, 29, 17
	credentialID := r.textOrEnv("applicationCredentialID", s.ApplicationCredentialID, envOSApplicationCredentialID)
	credentialSecret := r.textOrEnv("applicationCredentialSecret", s.ApplicationCredentialSecret, envOSApplicationCredentialSecret)
	username := r.textOrEnv("username", s.Username, envOSUserName)
	password := r.textOrEnv("password", s.Password, envOSPassword)
	project := r.textOrEnv("projectName", s.ProjectName, envOSProjectName)
	if project == "" {
		project = r.textOrEnv("tenantName", s.TenantName, envOSTenantName)
	}
	projectID := r.textOrEnv("projectID", s.ProjectID, envOSProjectID)
	if projectID == "" {
		projectID = r.textOrEnv("tenantID", s.TenantID, envOSTenantID)
	}
	domain := r.textOrEnv("domainName", s.DomainName, envOSDomainName)

	var w ini
	w.section("Global")
	w.set(globalWidth, "auth-url", iniq(r.textOrEnv("identityEndpoint", s.IdentityEndpoint, envOSAuthURL)))
	if credentialID != "" {
		w.set(credentialWidth, "application-credential-id", iniq(credentialID))
		w.set(credentialWidth, "application-credential-secret", iniq(credentialSecret))
	} else {
		w.set(globalWidth, "username", iniq(username))
		w.set(globalWidth, "password", iniq(password))
		w.set(globalWidth, "tenant-name", iniq(project))
		w.set(globalWidth, "tenant-id", iniq(projectID))
		w.set(globalWidth, "domain-name", iniq(domain))
	}
	w.set(globalWidth, "region", iniq(r.textOrEnv("region", s.Region, envOSRegionName)))
	w.section("LoadBalancer")
	if managesSecurityGroups.Check(kubelet) {
		w.set(0, "manage-security-groups", "true")
	}
	w.section("BlockStorage")
	if ignoresVolumeZone.Check(kubelet) {
		w.set(storageWidth, "ignore-volume-az", "true")
	}
	w.set(storageWidth, "trust-device-path", strconv.FormatBool(r.resolveBool("trustDevicePath", s.TrustDevicePath)))
	w.set(storageWidth, "bs-version", iniq("auto"))
	if limit := s.attachLimit(r); limit != 0 {
		w.set(0, "node-volume-attach-limit", strconv.FormatUint(limit, 10))
	}
	return w.String()
}

// attachLimit returns how many volumes a node can have, 0 for the provider's default.
func (s *openstackSpec) attachLimit(r *resolver) uint64 {
	text := string(s.NodeVolumeAttachLimit)
	if text == "" || text == "null" {
		return 0
	}
	limit, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		r.addProblem("nodeVolumeAttachLimit", errors.New("is not a whole number of at least 0: write one, without quotes"))
	}
	return limit
}
