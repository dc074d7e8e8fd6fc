package render

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	osm "github.com/osm-gitops/osm-gitops/pkg/api/osm/v1alpha1"
)

// Engine renders, and keeps the compiled templates of the profiles it has seen.
// It is safe for concurrent use.
type Engine struct {
	cache cache
}

// NewEngine returns an engine with an empty cache.
func NewEngine() *Engine { return &Engine{} }

// Render turns one profile and one pool into the configuration of its nodes:
// files in the profile's order, then the registry hosts sorted by path. Equal
// inputs give equal bytes, and nothing of the input is changed. The error is
// always an *InvalidError: rendering fails only because the profile, the pool or
// a setting is wrong, so retrying is pointless. See Problems for its parts.
func (e *Engine) Render(in Input) (*Output, error) {
	if err := in.check(); err != nil {
		return nil, err
	}
	c := e.compiled(in.Profile)
	if len(c.problems) > 0 {
		return nil, in.invalid(c.problems...)
	}
	redacted, _ := in.Split()
	settingsDigest := redacted.settingsDigest()
	inputDigest := redacted.inputDigest(settingsDigest)

	// The placeholders come first: what goes wrong then is safe to print.
	osc, problems := redacted.render(c, inputDigest)
	if len(problems) > 0 {
		return nil, in.invalid(problems...)
	}
	bootstrap, provisioning, problem := in.documents(osc)
	if problem != nil {
		return nil, in.invalid(problem)
	}
	out := &Output{OSC: *osc}
	out.Record = redacted.record(settingsDigest, osm.ConfigDigests{
		Input: inputDigest, Spec: digestJSON(osc), Bootstrap: digestBytes(bootstrap), Provisioning: digestBytes(provisioning),
	})

	realOSC, problems := in.render(c, inputDigest)
	if len(problems) > 0 {
		return nil, in.invalid(withoutCauses(problems)...)
	}
	if out.Bootstrap, out.Provisioning, problem = in.documents(realOSC); problem != nil {
		return nil, in.invalid(withoutCauses([]*InvalidError{problem})...)
	}
	return out, nil
}

// invalid makes Render's error of problems.
func (in Input) invalid(problems ...*InvalidError) error {
	return one(in.Profile.of(in.Pool.key(), problems))
}

// withoutCauses is for problems that only the real values bring about: their
// messages may quote a credential.
func withoutCauses(problems []*InvalidError) []*InvalidError {
	out := make([]*InvalidError, len(problems))
	for i, p := range problems {
		e := *p
		e.Err = errors.New("fails with the pool's credentials, although it renders with placeholders: it must not depend on what a credential contains")
		out[i] = &e
	}
	return out
}

// check refuses combinations of profile, pool and settings that cannot be
// rendered at all.
func (in Input) check() error {
	var problems []*InvalidError
	problems = append(problems, Problems(in.Settings.Validate())...)
	problems = append(problems, in.Profile.fits(in.Pool)...)
	if in.Pool.OperatingSystem != osm.OperatingSystemFlatcar && in.Pool.Network.IsStaticIPConfig() {
		problems = append(problems, problem(providerSpecField+".network", "sets a static address, which only flatcar supports: remove cidr, gateway and dns"))
	}
	return one(in.Profile.of(in.Pool.key(), problems))
}

// Fits says why a pool cannot use the profile at all, nil if it can: it is for
// another operating system or another cloud provider, or the pool wants it read
// by another utility. The error is an *InvalidError.
func (p Profile) Fits(pool Pool) error { return one(p.of(pool.key(), p.fits(pool))) }

func (p Profile) fits(pool Pool) []*InvalidError {
	var problems []*InvalidError
	if !slices.ContainsFunc(p.Spec.SupportedCloudProviders, func(c osm.CloudProviderSpec) bool { return c.Name == pool.CloudProvider }) {
		problems = append(problems, problem(providerSpecField+".cloudProvider", "is %q, which the profile does not list in supportedCloudProviders: choose another profile", pool.CloudProvider))
	}
	if p.Spec.OSName != pool.OperatingSystem {
		return append(problems, problem(providerSpecField+".operatingSystem", "is %q, but the profile is for %q: choose another profile", pool.OperatingSystem, p.Spec.OSName))
	}
	utility := pool.utility()
	switch {
	case p.Spec.ProvisioningUtility != "" && p.Spec.ProvisioningUtility != utility && pool.OperatingSystem == osm.OperatingSystemFlatcar:
		problems = append(problems, problem(providerSpecField+".operatingSystemSpec.provisioningUtility", "resolves to %q, but the profile is for %q: choose another profile", utility, p.Spec.ProvisioningUtility))
	case p.Spec.ProvisioningUtility != "" && p.Spec.ProvisioningUtility != utility:
		problems = append(problems, problem("spec.provisioningUtility", "is %q, which %s does not have: use cloud-init", p.Spec.ProvisioningUtility, pool.OperatingSystem))
	case utility == osm.ProvisioningUtilityIgnition:
		problems = append(problems, problem(providerSpecField+".operatingSystemSpec.provisioningUtility", "resolves to ignition, but this release renders cloud-init only: set it to cloud-init and choose a profile for that"))
	case utility != osm.ProvisioningUtilityCloudInit:
		problems = append(problems, problem(providerSpecField+".operatingSystemSpec.provisioningUtility", "is %q: write cloud-init or ignition", utility))
	}
	return problems
}

// utility is what reads the user-data of the pool's nodes (contract 7.1).
func (p Pool) utility() osm.ProvisioningUtility {
	if p.OperatingSystem != osm.OperatingSystemFlatcar {
		return osm.ProvisioningUtilityCloudInit
	}
	if f := p.OperatingSystemSpec.Flatcar; f != nil && f.ProvisioningUtility != "" {
		return f.ProvisioningUtility
	}
	return osm.ProvisioningUtilityIgnition
}

// render executes the templates with an input's values.
func (in Input) render(c *compiled, inputDigest string) (*osm.OperatingSystemConfigSpec, []*InvalidError) {
	d, problems := newData(in, inputDigest)
	if len(problems) > 0 {
		return nil, problems
	}
	profile := &in.Profile.Spec
	osc := &osm.OperatingSystemConfigSpec{
		OSName:              profile.OSName,
		OSVersion:           profile.OSVersion,
		CloudProvider:       osm.CloudProviderSpec{Name: in.Pool.CloudProvider},
		ProvisioningUtility: profile.ProvisioningUtility,
	}
	if osc.ProvisioningUtility == "" {
		osc.ProvisioningUtility = osm.ProvisioningUtilityCloudInit
	}
	osc.BootstrapConfig, problems = in.renderStage(&c.bootstrap, &profile.BootstrapConfig, d)
	provisioning, more := in.renderStage(&c.provisioning, &profile.ProvisioningConfig, d)
	if problems = append(problems, more...); len(problems) > 0 {
		return nil, problems
	}
	provisioning.Files = append(provisioning.Files, in.Settings.hostsFiles()...)
	osc.ProvisioningConfig = provisioning
	return osc, nil
}

func (in Input) renderStage(c *compiledStage, profile *osm.OSPConfig, d *data) (osm.OSCConfig, []*InvalidError) {
	files, problems := c.execute(d)
	if len(problems) > 0 {
		return osm.OSCConfig{}, problems
	}
	stage := osm.OSCConfig{Files: files, UserSSHKeys: slices.Clone(in.Pool.SSHPublicKeys)}
	for _, u := range profile.Units {
		stage.Units = append(stage.Units, *u.DeepCopy())
	}
	if profile.CloudInitModules != nil {
		stage.CloudInitModules = profile.CloudInitModules.DeepCopy()
	}
	if subscription := in.Pool.rhSubscription(); subscription != nil {
		if stage.CloudInitModules == nil {
			stage.CloudInitModules = &osm.CloudInitModule{}
		}
		stage.CloudInitModules.RHSubscription = maps.Clone(subscription)
	}
	return stage, nil
}

// rhSubscription is what registers a RHEL node (contract 2.4), nil elsewhere.
func (p Pool) rhSubscription() map[string]string {
	rhel := p.OperatingSystemSpec.RHEL
	if p.OperatingSystem != osm.OperatingSystemRHEL {
		return nil
	}
	if rhel == nil {
		rhel = &RHELSpec{}
	}
	if rhel.RHELUseSatelliteServer {
		return map[string]string{
			"org":             rhel.RHELOrganizationName,
			"activation-key":  rhel.RHELActivationKey,
			"server-hostname": rhel.RHELSatelliteServer,
			"rhsm-baseurl":    "https://" + rhel.RHELSatelliteServer + "/pulp/repos",
		}
	}
	return map[string]string{
		"username":    rhel.RHELSubscriptionManagerUser,
		"password":    rhel.RHELSubscriptionManagerPassword,
		"auto-attach": fmt.Sprint(rhel.AttachSubscription),
	}
}

// documents returns the user-data of both stages.
func (in Input) documents(osc *osm.OperatingSystemConfigSpec) (bootstrap, provisioning []byte, invalid *InvalidError) {
	for _, s := range []struct {
		stage  string
		config *osm.OSCConfig
		to     *[]byte
	}{{stageBootstrap, &osc.BootstrapConfig, &bootstrap}, {stageProvisioning, &osc.ProvisioningConfig, &provisioning}} {
		doc := cloudConfig{stage: s.stage, pool: &in.Pool, system: osc.OSName, config: s.config}
		b, err := doc.encode()
		if err != nil {
			return nil, nil, &InvalidError{Stage: s.stage, Field: "spec." + s.stage + "Config", Err: err}
		}
		*s.to = b
	}
	return bootstrap, provisioning, nil
}
