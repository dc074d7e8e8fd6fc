package render_test

import (
	"encoding/base64"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	cluster "github.com/osm-gitops/osm-gitops/pkg/api/cluster/v1alpha1"
	"github.com/osm-gitops/osm-gitops/pkg/render"
)

// machines is a MachineDeployment of a provider; an empty spec is left out.
func machines(provider, spec, kubelet string) *cluster.MachineDeployment {
	if spec != "" {
		spec = `"cloudProviderSpec":` + spec + `,`
	}
	return &cluster.MachineDeployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "pool"},
		Spec: cluster.MachineDeploymentSpec{Template: cluster.MachineTemplateSpec{Spec: cluster.MachineSpec{
			Versions:     cluster.MachineVersion{Kubelet: kubelet},
			ProviderSpec: cluster.ProviderSpec{Value: &runtime.RawExtension{Raw: []byte(`{"cloudProvider":"` + provider + `",` + spec + `"operatingSystem":"ubuntu"}`)}},
		}}},
	}
}

// cloudConfig returns the configuration that WithCloudConfig gives a pool.
func cloudConfig(t *testing.T, md *cluster.MachineDeployment, s render.Settings, facts render.ClusterValues) (string, error) {
	t.Helper()
	for name := range facts.Environment {
		if !slices.Contains(render.CloudConfigEnvironmentNames(), name) {
			t.Errorf("the controller does not read %s", name)
		}
	}
	pool, err := render.DecodePool(md)
	if err != nil {
		t.Fatal(err)
	}
	pool, err = pool.WithCloudConfig(md, s, facts)
	var invalid *render.InvalidError
	if err != nil && (!errors.As(err, &invalid) || pool.CloudConfig != "") {
		t.Errorf("error %T with configuration %q", err, pool.CloudConfig)
	}
	return pool.CloudConfig, err
}

const serviceAccount = `{"type":"service_account","project_id":"my-\"project","private_key":"canary"}`

// TestCloudConfig pins the text of every provider, to the byte.
func TestCloudConfig(t *testing.T) {
	secrets := map[string]map[string]string{"kube-system/creds": {"user": "fromSecret", "bool": "T", "empty": ""}}
	maps := map[string]map[string]string{"ns/settings": {"region": "fromMap"}}
	for name, c := range map[string]struct {
		provider, spec, kubelet string // 1.28.9 where empty
		facts                   render.ClusterValues
		want                    string
	}{
		"aws": {provider: "aws", spec: `{"availabilityZone":"eu-1a","vpcId":"vpc-\"1\\","subnetId":"subnet-1","region":"ignored"}`, want: `[global]
Zone="eu-1a"
VPC="vpc-\"1\\"
SubnetID="subnet-1"
`},
		"aws with nothing": {provider: "aws", spec: `{}`, want: "[global]\nZone=\"\"\nVPC=\"\"\nSubnetID=\"\"\n"},
		"keys in another case, the last of two": {provider: "aws", spec: `{"AVAILABILITYZONE":"a","vpcid":"v","VpcID":"w","SubnetId":"s"}`,
			want: "[global]\nZone=\"a\"\nVPC=\"w\"\nSubnetID=\"s\"\n"},
		"azure": {provider: "azure", spec: `{"tenantID":"t","subscriptionID":"s","clientID":"c","clientSecret":"x\"<y","resourceGroup":"rg","location":"westeurope","vnetName":"vn","subnetName":"sn","routeTableName":"rt","securityGroupName":"sg","vnetResourceGroup":"vrg","loadBalancerSku":"standard","availabilitySet":"as"}`,
			want: `{"cloud":"AZUREPUBLICCLOUD","tenantId":"t","subscriptionId":"s","aadClientId":"c","aadClientSecret":"x\"\u003cy","resourceGroup":"rg","location":"westeurope","vnetName":"vn","subnetName":"sn","routeTableName":"rt","securityGroupName":"sg","primaryAvailabilitySetName":"as","vnetResourceGroup":"vrg","useInstanceMetadata":true,"loadBalancerSku":"standard"}`},
		"azure of the environment, without its availability set": {provider: "azure", spec: `{"availabilitySet":"as","assignAvailabilitySet":false}`,
			facts: render.ClusterValues{Environment: map[string]string{"AZURE_TENANT_ID": "et", "AZURE_SUBSCRIPTION_ID": "es", "AZURE_CLIENT_ID": "ec", "AZURE_CLIENT_SECRET": "ex"}},
			want:  `{"cloud":"AZUREPUBLICCLOUD","tenantId":"et","subscriptionId":"es","aadClientId":"ec","aadClientSecret":"ex","resourceGroup":"","location":"","vnetName":"","subnetName":"","routeTableName":"","securityGroupName":"","primaryAvailabilitySetName":"","vnetResourceGroup":"","useInstanceMetadata":true,"loadBalancerSku":""}`},
		"azure with its availability set": {provider: "azure", spec: `{"availabilitySet":"as","assignAvailabilitySet":true}`,
			want: `{"cloud":"AZUREPUBLICCLOUD","tenantId":"","subscriptionId":"","aadClientId":"","aadClientSecret":"","resourceGroup":"","location":"","vnetName":"","subnetName":"","routeTableName":"","securityGroupName":"","primaryAvailabilitySetName":"as","vnetResourceGroup":"","useInstanceMetadata":true,"loadBalancerSku":""}`},
		"gce": {provider: "gce", spec: `{"serviceAccount":"` + base64.StdEncoding.EncodeToString([]byte(serviceAccount)) + `","zone":"z-a","network":"n","subnetwork":"s","tags":["a","b\"c"],"multizone":true,"regional":{"secretKeyRef":{"namespace":"kube-system","name":"creds","key":"bool"}}}`,
			facts: render.ClusterValues{Secrets: secrets},
			want: `[global]
project-id = "my-\"project"
local-zone = "z-a"
network-name = "n"
subnetwork-name = "s"
multizone = true
regional = true
node-tags = "a"
node-tags = "b\"c"
`},
		"gce of the environment": {provider: "gce", spec: `{"multizone":null}`,
			facts: render.ClusterValues{Environment: map[string]string{"GOOGLE_SERVICE_ACCOUNT": base64.StdEncoding.EncodeToString([]byte(`{"project_id":"p"}`))}},
			want: `[global]
project-id = "p"
local-zone = ""
network-name = ""
subnetwork-name = ""
multizone = false
regional = false
`},
		"kubevirt": {provider: "kubevirt", spec: `{"auth":{"kubeconfig":"` + base64.StdEncoding.EncodeToString([]byte("a: \"b\"\n")) + `"}}`, want: `global:
    kubeconfig: |
        a: "b"
    namespace: kube-system
`},
		"kubevirt, encoded in the environment": {provider: "kubevirt", spec: `{}`,
			facts: render.ClusterValues{Environment: map[string]string{"KUBEVIRT_KUBECONFIG": base64.StdEncoding.EncodeToString([]byte("x")), "POD_NAMESPACE": "ours"}},
			want:  "global:\n    kubeconfig: x\n    namespace: ours\n"},
		"kubevirt, plain in a Secret": {provider: "kubevirt", spec: `{"auth":{"kubeconfig":{"secretKeyRef":{"namespace":"a","name":"b","key":"c"}}}}`,
			facts: render.ClusterValues{Secrets: map[string]map[string]string{"a/b": {"c": "k: v\n"}}},
			want:  "global:\n    kubeconfig: |\n        k: v\n    namespace: kube-system\n"},
		"openstack": {provider: "openstack", spec: `{"identityEndpoint":"https://k:5000/v3","region":"R","domainName":"D","username":"u","password":"pa\"ss\\word","projectName":"p","projectID":"pid","tenantName":"not this","tenantID":"nor this","trustDevicePath":true,"nodeVolumeAttachLimit":25}`,
			want: `[Global]
auth-url    = "https://k:5000/v3"
username    = "u"
password    = "pa\"ss\\word"
tenant-name = "p"
tenant-id   = "pid"
domain-name = "D"
region      = "R"

[LoadBalancer]
manage-security-groups = true

[BlockStorage]
ignore-volume-az  = true
trust-device-path = true
bs-version        = "auto"
node-volume-attach-limit = 25
`},
		"openstack with application credentials": {provider: "openstack", spec: `{"applicationCredentialID":{"secretKeyRef":{"namespace":"kube-system","name":"creds","key":"user"},"value":"not this"},"applicationCredentialSecret":{"value":"s"},"username":"u","region":{"configMapKeyRef":{"namespace":"ns","name":"settings","key":"region","kind":"any","uid":"any","more":1}},"nodeVolumeAttachLimit":0}`,
			facts: render.ClusterValues{Secrets: secrets, ConfigMaps: maps},
			want: `[Global]
auth-url    = ""
application-credential-id     = "fromSecret"
application-credential-secret = "s"
region      = "fromMap"

[LoadBalancer]
manage-security-groups = true

[BlockStorage]
ignore-volume-az  = true
trust-device-path = false
bs-version        = "auto"
`},
		"openstack of the environment": {provider: "openstack", spec: `{"username":{"secretKeyRef":{"namespace":"kube-system","name":"creds","key":"empty"}},"password":{"secretKeyRef":{"namespace":"kube-system","name":"nowhere","key":"x"}},"nodeVolumeAttachLimit":null}`,
			facts: render.ClusterValues{Secrets: secrets, Environment: map[string]string{
				"OS_AUTH_URL": "ea", "OS_REGION_NAME": "er", "OS_DOMAIN_NAME": "ed", "OS_USER_NAME": "eu", "OS_PASSWORD": "ep", "OS_TENANT_NAME": "et", "OS_PROJECT_ID": "epi", "OS_TENANT_ID": "eti",
			}},
			kubelet: "1.8.0",
			want: `[Global]
auth-url    = "ea"
username    = "eu"
password    = "ep"
tenant-name = "et"
tenant-id   = "epi"
domain-name = "ed"
region      = "er"

[LoadBalancer]

[BlockStorage]
trust-device-path = false
bs-version        = "auto"
`},
		"openstack of a pre-release": {provider: "openstack", spec: `{"tenantID":"t","tenantName":"n"}`, kubelet: "1.36.0-rc.1", want: `[Global]
auth-url    = ""
username    = ""
password    = ""
tenant-name = "n"
tenant-id   = "t"
domain-name = ""
region      = ""

[LoadBalancer]

[BlockStorage]
trust-device-path = false
bs-version        = "auto"
`},
		"openstack 1.10.5, which manages no groups": {provider: "openstack", spec: `{}`, kubelet: "1.10.5",
			facts: render.ClusterValues{Environment: map[string]string{"OS_APPLICATION_CREDENTIAL_ID": "i", "OS_APPLICATION_CREDENTIAL_SECRET": "s"}},
			want: `[Global]
auth-url    = ""
application-credential-id     = "i"
application-credential-secret = "s"
region      = ""

[LoadBalancer]

[BlockStorage]
ignore-volume-az  = true
trust-device-path = false
bs-version        = "auto"
`},
		"vsphere": {provider: "vsphere", spec: `{"vsphereURL":"https://vc.example.com:8443/sdk","username":"u\\x","password":"p","allowInsecure":true,"cluster":"c","datacenter":"dc","folder":"/f","datastore":"ds","datastoreCluster":"not this"}`, want: `[Global]
user              = "u\\x"
password          = "p"
port              = "8443"
insecure-flag     = true

[Disk]
scsicontrollertype = "pvscsi"

[Workspace]
server            = "vc.example.com"
datacenter        = "dc"
folder            = "/f"
default-datastore = "ds"


[VirtualCenter "vc.example.com"]
user = "u\\x"
password = "p"
port = 8443
datacenters = "dc"
`},
		"vsphere without scheme and port": {provider: "vsphere", spec: `{"vsphereURL":{"secretKeyRef":{"name":"incomplete","key":"x"}},"datacenter":"dc","datastoreCluster":"dsc"}`,
			facts: render.ClusterValues{Environment: map[string]string{"VSPHERE_ADDRESS": "[fd00::1]", "VSPHERE_USERNAME": "eu", "VSPHERE_PASSWORD": "ep", "VSPHERE_ALLOW_INSECURE": "1"}},
			want: `[Global]
user              = "eu"
password          = "ep"
port              = ""
insecure-flag     = true

[Disk]
scsicontrollertype = "pvscsi"

[Workspace]
server            = "fd00::1"
datacenter        = "dc"
folder            = "/dc/vm"
default-datastore = "dsc"


[VirtualCenter "fd00::1"]
user = "eu"
password = "ep"
port = ` + `
datacenters = "dc"
`},
	} {
		t.Run(name, func(t *testing.T) {
			if c.kubelet == "" {
				c.kubelet = "1.28.9"
			}
			got, err := cloudConfig(t, machines(c.provider, c.spec, c.kubelet), render.Settings{}, c.facts)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// TestCloudConfigIsNotNeeded: an invalid cloudProviderSpec is then not even read.
func TestCloudConfigIsNotNeeded(t *testing.T) {
	const broken = `{"availabilityZone":{"secretKeyRef":{"namespace":"a","name":"b","key":"c"}},"vpcId":[]}`
	overwritten := machines("aws", broken+`,"overwriteCloudConfig":""`, "1.28.9")
	for name, c := range map[string]struct {
		md       *cluster.MachineDeployment
		settings render.Settings
	}{
		"a kubelet without providers":  {machines("aws", broken, "1.29.0"), render.Settings{}},
		"a provider outside":           {machines("aws", broken, "1.28.9"), render.Settings{ExternalCloudProvider: true}},
		"a pool that overwrites it":    {overwritten, render.Settings{}},
		"a provider that has none":     {machines("hetzner", broken, "1.28.9"), render.Settings{}},
		"one that nobody knows either": {machines("fake", "", "1.35.1"), render.Settings{}},
		"edge":                         {machines("edge", "", "1.28.9"), render.Settings{}},
	} {
		t.Run(name, func(t *testing.T) {
			pool, err := render.DecodePool(c.md)
			if err != nil {
				t.Fatal(err)
			}
			if refs := pool.CloudConfigRefs(c.md, c.settings); len(refs) != 0 {
				t.Errorf("it refers to %v", refs)
			}
			pool.CloudConfig = "of an earlier kubelet"
			if pool, err = pool.WithCloudConfig(c.md, c.settings, render.ClusterValues{}); err != nil || pool.CloudConfig != "" {
				t.Errorf("configuration %q, error %v", pool.CloudConfig, err)
			}
		})
	}
}

// TestCloudConfigErrors: each error names the field to change, and quotes no value.
func TestCloudConfigErrors(t *testing.T) {
	facts := render.ClusterValues{
		Secrets:    map[string]map[string]string{"kube-system/creds": {"lines": "canary\n", "binary": "canary\xff", "bool": "canary"}},
		ConfigMaps: map[string]map[string]string{"kube-system/creds": {}},
	}
	secret := func(key string) string {
		return `{"secretKeyRef":{"namespace":"kube-system","name":"creds","key":"` + key + `"}}`
	}
	for name, c := range map[string]struct {
		provider, spec, kubelet string
		want                    []string // field and cause of each
	}{
		"no spec":                       {"aws", ``, "1.28.9", []string{"cloudProviderSpec: is missing: kubelet 1.28.9"}},
		"null":                          {"aws", ` null `, "1.28.9", []string{"cloudProviderSpec: is missing"}},
		"a list":                        {"aws", `[]`, "1.28.9", []string{"cloudProviderSpec: is of the wrong type: write a mapping, not a array"}},
		"an unknown provider":           {"fake", `{}`, "1.28.9", []string{`cloudProvider: "fake" has no cloud configuration for kubelet 1.28.9`}},
		"a pre-release of one":          {"external", `{}`, "1.30.0-rc.0", []string{`cloudProvider: "external" has no cloud configuration`}},
		"a Secret that is not there":    {"aws", `{"vpcId":{"secretKeyRef":{"namespace":"a","name":"b","key":"c"}}}`, "1.28.9", []string{`cloudProviderSpec.vpcId: Secret a/b does not exist: create it, with key "c"`}},
		"a key that is not there":       {"aws", `{"subnetId":{"configMapKeyRef":{"namespace":"kube-system","name":"creds","key":"c"}}}`, "1.28.9", []string{`cloudProviderSpec.subnetId: ConfigMap kube-system/creds has no key "c"`}},
		"all of them":                   {"aws", `{"availabilityZone":[1,"canary"],"vpcId":{"value":5},"subnetId":"canary\/"}`, "1.28.9", []string{"cloudProviderSpec.availabilityZone: is not a text", "cloudProviderSpec.vpcId.value: is of the wrong type: write a string, not a number", "cloudProviderSpec.subnetId: is not a text"}},
		"a reference of the wrong type": {"aws", `{"vpcId":{"secretKeyRef":{"name":5}}}`, "1.28.9", []string{"cloudProviderSpec.vpcId.secretKeyRef.name: is of the wrong type"}},
		"a line break":                  {"aws", `{"vpcId":` + secret("lines") + `}`, "1.28.9", []string{"cloudProviderSpec.vpcId: contains a line break"}},
		"a line break in openstack":     {"openstack", `{"password":` + secret("lines") + `}`, "1.28.9", []string{"cloudProviderSpec.password: contains a line break"}},
		"a tag with a line break":       {"gce", `{"serviceAccount":"e30=","tags":["ok","canary\n"]}`, "1.28.9", []string{"cloudProviderSpec.tags[1]: contains a line break"}},
		"bytes":                         {"aws", `{"vpcId":` + secret("binary") + `}`, "1.28.9", []string{"cloudProviderSpec.vpcId: Secret kube-system/creds: the value of key \"binary\" is not UTF-8"}},
		"no service account":            {"gce", `{}`, "1.28.9", []string{"cloudProviderSpec.serviceAccount: is empty, and so is GOOGLE_SERVICE_ACCOUNT"}},
		"a plain service account":       {"gce", `{"serviceAccount":"canary{"}`, "1.28.9", []string{"cloudProviderSpec.serviceAccount: is not base64"}},
		"no JSON in it":                 {"gce", `{"serviceAccount":"Y2FuYXJ5"}`, "1.28.9", []string{"cloudProviderSpec.serviceAccount: holds no JSON"}},
		"tags in a text":                {"gce", `{"tags":"canary"}`, "1.28.9", []string{"cloudProviderSpec.tags: is of the wrong type: write a list"}},
		"a quoted boolean":              {"gce", `{"serviceAccount":"e30=","multizone":"true"}`, "1.28.9", []string{"cloudProviderSpec.multizone: is not a boolean"}},
		"no boolean in a Secret":        {"gce", `{"serviceAccount":"e30=","regional":` + secret("bool") + `}`, "1.28.9", []string{`cloudProviderSpec.regional: Secret kube-system/creds: the value of key "bool" is not a boolean`}},
		"a plain kubeconfig":            {"kubevirt", `{"auth":{"kubeconfig":"canary: x"}}`, "1.28.9", []string{"cloudProviderSpec.auth.kubeconfig: is not a kubeconfig in base64"}},
		"auth is a text":                {"kubevirt", `{"auth":"canary"}`, "1.28.9", []string{"cloudProviderSpec.auth: is of the wrong type: write a mapping"}},
		"a limit below 0":               {"openstack", `{"nodeVolumeAttachLimit":-1}`, "1.28.9", []string{"cloudProviderSpec.nodeVolumeAttachLimit: is not a whole number"}},
		"a limit in quotes":             {"openstack", `{"nodeVolumeAttachLimit":"1"}`, "1.28.9", []string{"cloudProviderSpec.nodeVolumeAttachLimit: is not a whole number"}},
		"a text with environment":       {"openstack", `{"username":{"value":1}}`, "1.28.9", []string{"cloudProviderSpec.username.value: is of the wrong type"}},
		"a path from nowhere":           {"openstack", `{"trustDevicePath":` + secret("nope") + `}`, "1.28.9", []string{`cloudProviderSpec.trustDevicePath: Secret kube-system/creds has no key "nope"`}},
		"a cluster nobody emits":        {"vsphere", `{"cluster":` + secret("nope") + `}`, "1.28.9", []string{"cloudProviderSpec.cluster: Secret"}},
		"another scheme":                {"vsphere", `{"vsphereURL":"http://u:canary@vc"}`, "1.28.9", []string{"cloudProviderSpec.vsphereURL: is not an https URL"}},
		"no URL":                        {"vsphere", `{"vsphereURL":"u:canary@vc:port"}`, "1.28.9", []string{"cloudProviderSpec.vsphereURL: is not a URL"}},
		"insecure in quotes":            {"vsphere", `{"allowInsecure":"true"}`, "1.28.9", []string{"cloudProviderSpec.allowInsecure: is not a boolean"}},
		"a broken availability":         {"azure", `{"assignAvailabilitySet":"canary"}`, "1.28.9", []string{"cloudProviderSpec.assignAvailabilitySet: is of the wrong type: write a boolean"}},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := cloudConfig(t, machines(c.provider, c.spec, c.kubelet), render.Settings{}, facts)
			problems := render.Problems(err)
			if len(problems) != len(c.want) {
				t.Fatalf("%d problems, want %d: %v", len(problems), len(c.want), err)
			}
			for i, p := range problems {
				if got := p.Error(); !strings.Contains(got, "spec.template.spec.providerSpec.value."+c.want[i]) || strings.Contains(got, "canary") || p.Pool != "kube-system/pool" {
					t.Errorf("problem %d: %s\nwant %s", i, got, c.want[i])
				}
			}
		})
	}
}

// TestCloudConfigRefs: the references to read, in order and without duplicates.
func TestCloudConfigRefs(t *testing.T) {
	md := machines("openstack", `{
		"username":{"secretKeyRef":{"namespace":"b","name":"creds","key":"user"}},
		"password":{"secretKeyRef":{"namespace":"a","name":"creds","key":"pw"},"configMapKeyRef":{"namespace":"a","name":"unread","key":"pw"}},
		"tenantName":{"secretKeyRef":{"namespace":"a","name":"creds","key":"pw"}},
		"tenantID":{"secretKeyRef":{"namespace":"a","name":"unread","key":"x"}},"projectID":"inline",
		"trustDevicePath":{"configMapKeyRef":{"namespace":"a","name":"flags","key":"tdp"}},
		"region":{"secretKeyRef":{"namespace":"a","name":"incomplete"}},
		"identityEndpoint":[]}`, "1.28.9")
	pool, err := render.DecodePool(md)
	if err != nil {
		t.Fatal(err)
	}
	want := []render.ConfigVarRef{
		{Kind: "ConfigMap", Namespace: "a", Name: "flags", Key: "tdp"},
		{Kind: "Secret", Namespace: "a", Name: "creds", Key: "pw"},
		{Kind: "Secret", Namespace: "b", Name: "creds", Key: "user"},
	}
	if diff := cmp.Diff(want, pool.CloudConfigRefs(md, render.Settings{})); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestEnvironmentNames: each of them reaches a configuration.
func TestEnvironmentNames(t *testing.T) {
	names := render.CloudConfigEnvironmentNames()
	if !slices.IsSorted(names) || len(slices.Compact(slices.Clone(names))) != len(names) {
		t.Errorf("%v is out of order, or has one twice", names)
	}
	all := func(skip string) string {
		facts := render.ClusterValues{Environment: map[string]string{}}
		for _, name := range names {
			facts.Environment[name] = "of-" + name
		}
		facts.Environment["VSPHERE_ALLOW_INSECURE"] = "true"
		facts.Environment["GOOGLE_SERVICE_ACCOUNT"] = base64.StdEncoding.EncodeToString([]byte(serviceAccount))
		delete(facts.Environment, skip)
		var texts []string
		for _, provider := range []string{"azure", "gce", "kubevirt", "openstack", "vsphere"} {
			text, err := cloudConfig(t, machines(provider, "{}", "1.28.9"), render.Settings{}, facts)
			texts = append(texts, text, fmt.Sprint(err))
		}
		// If there are application credentials, nothing else is written.
		delete(facts.Environment, "OS_APPLICATION_CREDENTIAL_ID")
		for _, gone := range []string{"", "OS_PROJECT_NAME", "OS_PROJECT_ID"} {
			delete(facts.Environment, gone)
			text, err := cloudConfig(t, machines("openstack", "{}", "1.28.9"), render.Settings{}, facts)
			texts = append(texts, text, fmt.Sprint(err))
		}
		return strings.Join(texts, "\n")
	}
	for _, name := range names {
		if all(name) == all("") {
			t.Errorf("%s makes no difference", name)
		}
	}
}

// TestRenderNeedsCloudConfig: a pool that lacks its generated configuration is rejected, not
// rendered without it.
func TestRenderNeedsCloudConfig(t *testing.T) {
	in := sampleInput(t)
	in.Pool.CloudProvider, in.Pool.KubeletVersion, in.Pool.OverwriteCloudConfig = "aws", "1.28.9", nil
	in.Settings.ExternalCloudProvider = false
	_, err := render.NewEngine().Render(in)
	if err == nil || !strings.Contains(err.Error(), "cloudProviderSpec: was not read: kubelet 1.28.9") {
		t.Errorf("error %v", err)
	}
	in.Pool.CloudConfig = "[global]\n"
	if _, err := render.NewEngine().Render(in); err != nil {
		t.Error(err)
	}
}
