package render

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"

	"k8s.io/utils/lru"

	api "github.com/osm-gitops/osm-gitops/pkg/api/gitops/v1alpha1"
	osm "github.com/osm-gitops/osm-gitops/pkg/api/osm/v1alpha1"
	"github.com/osm-gitops/osm-gitops/pkg/render/internal/invalid"
	"github.com/osm-gitops/osm-gitops/pkg/render/internal/meter"
	"github.com/osm-gitops/osm-gitops/pkg/render/internal/templates"
	"github.com/osm-gitops/osm-gitops/pkg/render/internal/userdata"
)

// Engine renders, and caches the compiled templates of the profiles that it rendered. It is
// safe for concurrent use.
type Engine struct {
	cache       *lru.Cache // of *compiled, by digest
	memorySlots meter.MemorySlots
}

// NewEngine returns an engine with an empty cache.
func NewEngine() *Engine {
	return &Engine{cache: lru.New(maxCompiled), memorySlots: meter.NewMemorySlots()}
}

// Render turns one profile and one pool into the configuration of its nodes: files in the
// profile's order, then the registry hosts sorted by path. Equal inputs give equal bytes, and
// the input is not changed. The error is always an *InvalidError: rendering fails only because
// the profile, the pool or a setting is invalid, so retrying is pointless. Problems splits the
// error.
//
// Render can wait for other renderings, longest for those that need much: see meter.MemorySlots.
func (e *Engine) Render(in Input) (out *Output, err error) {
	if err := in.checkCombination(); err != nil {
		return nil, err
	}
	compiled := e.getOrCompile(in.Profile)
	e.memorySlots.RunSmallThenLarge(func(r *meter.Memory) {
		c := *compiled
		c.memory = r
		out, err = in.renderWith(&c)
	})
	return out, err
}

// RenderConfig returns the configuration of a pool with its credentials in place of placeholders, as
// operating-system-manager stores it. Its errors are those of Render.
func (e *Engine) RenderConfig(in Input) (osm.OperatingSystemConfigSpec, error) {
	out, err := e.Render(in)
	if err != nil {
		return osm.OperatingSystemConfigSpec{}, err
	}
	var osc *osm.OperatingSystemConfigSpec
	var problems []*invalid.Error
	compiled := e.getOrCompile(in.Profile)
	e.memorySlots.RunSmallThenLarge(func(r *meter.Memory) {
		c := *compiled
		c.memory = r
		osc, _, problems = in.render(&c, out.Record.Digests.Input)
	})
	if len(problems) > 0 {
		return osm.OperatingSystemConfigSpec{}, in.invalid(hideCauses(problems)...)
	}
	copyManifest(osc, &out.OSC)
	return *osc, nil
}

// Check finds the errors in a profile that do not depend on the pool: templates that do not
// parse or call unknown functions, fields that templates cannot read, files without content,
// invalid modes, units with invalid names, a utility that the operating system does not have,
// and templates whose output depends on the content of credentials. It reports all of them at
// once; Problems splits the error.
func (e *Engine) Check(p Profile) error {
	c := e.getOrCompile(p)
	problems := slices.Clone(c.problems)
	if p.Spec.OSName != osm.OperatingSystemFlatcar && p.Spec.ProvisioningUtility == osm.ProvisioningUtilityIgnition {
		problems = append(problems, invalid.At("spec.provisioningUtility", "is ignition, which %s does not have: use cloud-init", p.Spec.OSName))
	}
	for _, stage := range []*compiledStage{&c.bootstrap, &c.provisioning} {
		problems = append(problems, stage.Check()...)
	}
	// A profile that cannot be rendered has no output to compare.
	if len(problems) == 0 {
		problems = c.checkShape(p)
	}
	return invalid.Join(p.locateProblems("", problems))
}

// renderWith renders with compiled templates.
func (in Input) renderWith(c *compiled) (*Output, error) {
	if len(c.problems) > 0 {
		return nil, in.invalid(c.problems...)
	}
	redacted, _ := in.ReplaceSecrets()
	settingsDigest := redacted.settingsDigest()
	inputDigest := redacted.inputDigest(settingsDigest)

	// Render the placeholders first: the errors of this run are safe to print.
	osc, shape, problems := redacted.renderPlaceholders(c, inputDigest)
	if len(problems) > 0 {
		return nil, in.invalid(problems...)
	}
	bootstrap, provisioning, problems := in.encodeDocuments(c, osc)
	if len(problems) > 0 {
		return nil, in.invalid(problems...)
	}
	out := &Output{OSC: *osc}
	out.Record = redacted.recordWithDigests(settingsDigest, osm.ConfigDigests{
		Input: inputDigest, Spec: digestJSON(osc), Bootstrap: digestBytes(bootstrap), Provisioning: digestBytes(provisioning),
	})

	realOSC, realShape, problems := in.render(c, inputDigest)
	if len(problems) > 0 {
		return nil, in.invalid(hideCauses(problems)...)
	}
	if problems := c.compareShapes(redacted, in, inputDigest, shape, realShape); len(problems) > 0 {
		return nil, in.invalid(problems...)
	}
	copyManifest(realOSC, osc)
	if out.Bootstrap, out.Provisioning, problems = in.encodeDocuments(c, realOSC); len(problems) > 0 {
		return nil, in.invalid(hideCauses(problems)...)
	}
	if problems := in.checkSizes(realOSC, out); len(problems) > 0 {
		return nil, in.invalid(problems...)
	}
	return out, nil
}

// invalid returns Render's error for problems.
func (in Input) invalid(problems ...*invalid.Error) error {
	return invalid.AsSingleError(in.Profile.locateProblems(in.Pool.key(), problems))
}

// hideCauses removes the causes of problems that only the real values have: their messages
// can quote a credential.
func hideCauses(problems []*invalid.Error) []*invalid.Error {
	out := make([]*invalid.Error, len(problems))
	for i, p := range problems {
		e := *p
		e.Err = errors.New("fails with the pool's credentials, although it renders with placeholders: it must not depend on what a credential contains")
		out[i] = &e
	}
	return out
}

// checkCombination rejects combinations of profile, pool and settings that cannot be rendered at all.
func (in Input) checkCombination() error {
	var problems []*invalid.Error
	problems = append(problems, invalid.Problems(in.Settings.Validate())...)
	problems = append(problems, userdata.CheckIgnitionVersion(ignitionVersionField, "", in.Pool.IgnitionVersion)...)
	problems = append(problems, in.Profile.fits(in.Pool)...)
	if in.Pool.OperatingSystem != osm.OperatingSystemFlatcar && in.Pool.Network.IsStaticIPConfig() {
		problems = append(problems, invalid.At(providerSpecField+".network", "sets a static address, which only flatcar supports: remove cidr, gateway and dns"))
	}
	return invalid.AsSingleError(in.Profile.locateProblems(in.Pool.key(), problems))
}

// Fits returns why a pool cannot use the profile at all, and nil if it can: the profile is for
// another operating system, another cloud provider or another provisioning utility. The error
// is an *InvalidError.
func (p Profile) Fits(pool Pool) error {
	return invalid.AsSingleError(p.locateProblems(pool.key(), p.fits(pool)))
}

func (p Profile) fits(pool Pool) []*invalid.Error {
	var problems []*invalid.Error
	if !slices.ContainsFunc(p.Spec.SupportedCloudProviders, func(c osm.CloudProviderSpec) bool { return c.Name == pool.CloudProvider }) {
		problems = append(problems, invalid.At(providerSpecField+".cloudProvider", "is %q, which the profile does not list in supportedCloudProviders: choose another profile", pool.CloudProvider))
	}
	if p.Spec.OSName != pool.OperatingSystem {
		return append(problems, invalid.At(providerSpecField+".operatingSystem", "is %q, but the profile is for %q: choose another profile", pool.OperatingSystem, p.Spec.OSName))
	}
	const utilityField = providerSpecField + ".operatingSystemSpec.provisioningUtility"
	profile, utility := p.utility(), pool.utility()
	switch {
	case pool.OperatingSystem != osm.OperatingSystemFlatcar && profile != utility:
		problems = append(problems, invalid.At("spec.provisioningUtility", "is %q, which %s does not have: use cloud-init", profile, pool.OperatingSystem))
	case utility != osm.ProvisioningUtilityCloudInit && utility != osm.ProvisioningUtilityIgnition:
		problems = append(problems, invalid.At(utilityField, "is %q: write cloud-init or ignition", utility))
	case profile != utility:
		problems = append(problems, invalid.At(utilityField, "resolves to %q, but the profile is for %q: choose another profile", utility, profile))
	}
	return problems
}

// utility returns the utility that the profile is written for, by default cloud-init, as its
// OperatingSystemConfigs will say.
func (p Profile) utility() osm.ProvisioningUtility {
	return cmp.Or(p.Spec.ProvisioningUtility, osm.ProvisioningUtilityCloudInit)
}

// utility returns the program that reads the user-data of the pool's nodes.
func (p Pool) utility() osm.ProvisioningUtility {
	if p.OperatingSystem != osm.OperatingSystemFlatcar {
		return osm.ProvisioningUtilityCloudInit
	}
	if f := p.OperatingSystemSpec.Flatcar; f != nil && f.ProvisioningUtility != "" {
		return f.ProvisioningUtility
	}
	return osm.ProvisioningUtilityIgnition
}

// renderPlaceholders is render for an input with placeholders, and fills the manifest.
func (in Input) renderPlaceholders(c *compiled, inputDigest string) (*osm.OperatingSystemConfigSpec, uint64, []*invalid.Error) {
	osc, shape, problems := in.render(c, inputDigest)
	if len(problems) == 0 {
		problems = in.fillManifest(c, osc, inputDigest)
	}
	return osc, shape, problems
}

// render executes the templates with an input's values. The number identifies the shape of
// their output.
func (in Input) render(c *compiled, inputDigest string) (*osm.OperatingSystemConfigSpec, uint64, []*invalid.Error) {
	return in.renderRecordingPath(c, inputDigest, nil)
}

// renderRecordingPath renders, and records the execution path of the templates in t if it is not
// nil.
func (in Input) renderRecordingPath(c *compiled, inputDigest string, t *templates.ExecutionPath) (*osm.OperatingSystemConfigSpec, uint64, []*invalid.Error) {
	d, problems := newData(in, inputDigest)
	if len(problems) > 0 {
		return nil, 0, problems
	}
	x := templates.NewExecution(d)
	x.Trace = c.trace
	x.Path = t
	x.Meter.Memory = c.memory
	profile := &in.Profile.Spec
	osc := &osm.OperatingSystemConfigSpec{
		OSName:              profile.OSName,
		OSVersion:           profile.OSVersion,
		CloudProvider:       osm.CloudProviderSpec{Name: in.Pool.CloudProvider},
		ProvisioningUtility: in.Profile.utility(),
	}
	osc.BootstrapConfig, problems = in.renderStage(&c.bootstrap, &profile.BootstrapConfig, x)
	provisioning, more := in.renderStage(&c.provisioning, &profile.ProvisioningConfig, x)
	if problems = append(problems, more...); len(problems) > 0 {
		return nil, 0, problems
	}
	provisioning.Files = append(provisioning.Files, in.Settings.HostsFiles()...)
	osc.ProvisioningConfig = provisioning
	return osc, x.Shape(), nil
}

func (in Input) renderStage(c *compiledStage, profile *osm.OSPConfig, x *templates.Execution) (osm.OSCConfig, []*invalid.Error) {
	files, problems := c.Execute(x)
	if len(problems) > 0 {
		return osm.OSCConfig{}, problems
	}
	stage := osm.OSCConfig{Files: files, UserSSHKeys: slices.Clone(in.Pool.SSHPublicKeys)}
	for _, u := range profile.Units {
		// The profile is shared with other renderings.
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

// rhSubscription returns the values that register a RHEL node, nil for other
// systems.
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

// encodeDocuments returns the user-data of both stages.
func (in Input) encodeDocuments(c *compiled, osc *osm.OperatingSystemConfigSpec) (bootstrap, provisioning []byte, problems []*invalid.Error) {
	if err := c.memory.RequireFit(totalFileBytes(osc) <= meter.SmallOutput); err != nil {
		return nil, nil, []*invalid.Error{{Err: err}}
	}
	bootstrap, problems = in.encodeDocument(&c.bootstrap, &osc.BootstrapConfig)
	provisioning, more := in.encodeDocument(&c.provisioning, &osc.ProvisioningConfig)
	return bootstrap, provisioning, append(problems, more...)
}

// totalFileBytes returns how many bytes the files of both stages have.
func totalFileBytes(osc *osm.OperatingSystemConfigSpec) int {
	n := 0
	for _, config := range []*osm.OSCConfig{&osc.BootstrapConfig, &osc.ProvisioningConfig} {
		for _, f := range config.Files {
			n += len(f.Content.Inline.Data)
		}
	}
	return n
}

func (in Input) encodeDocument(stage *compiledStage, config *osm.OSCConfig) ([]byte, []*invalid.Error) {
	if in.Pool.utility() == osm.ProvisioningUtilityIgnition {
		return in.ignitionDocument(stage, config).Encode()
	}
	b, err := in.cloudInit(stage.Name, config).Encode()
	if errors.Is(err, userdata.ErrTooLarge) {
		err = &UserDataError{Size: userdata.MaxDocumentBytes, Limit: maxSecretBytes, message: fmt.Sprintf(
			"%v, but a Secret holds %d: let the node download what is large", err, maxSecretBytes)}
	}
	if err != nil {
		return nil, []*invalid.Error{stage.problem("%w", err)}
	}
	return b, nil
}

// cloudInit returns the document of a stage for cloud-init.
func (in Input) cloudInit(stage string, config *osm.OSCConfig) userdata.CloudConfig {
	return userdata.CloudConfig{
		Hostname:    in.Pool.machineNameText(stage),
		Upgrade:     in.Pool.OperatingSystemSpec.DistUpgradeOnBoot,
		StartsUnits: stage == stageBootstrap,
		System:      in.Pool.OperatingSystem,
		Config:      config,
	}
}

// ignitionDocument returns the document of a stage for Ignition.
func (in Input) ignitionDocument(stage *compiledStage, config *osm.OSCConfig) userdata.Ignition {
	return userdata.Ignition{
		Version:  in.ignitionVersion(),
		Hostname: in.Pool.machineNameText(stage.Name),
		Stage:    stage.ignition,
		Config:   config,
	}
}

// DefaultIgnitionVersion is the default version of the Ignition specification for documents.
const DefaultIgnitionVersion = userdata.DefaultIgnitionVersion

// ignitionVersionField is the field in which a pool sets a version.
const ignitionVersionField = "metadata.annotations[" + api.AnnotationIgnitionVersion + "]"

// ignitionVersion returns the version of the pool's documents.
func (in Input) ignitionVersion() string {
	return cmp.Or(in.Pool.IgnitionVersion, in.Settings.IgnitionVersion, userdata.DefaultIgnitionVersion)
}

// machineNameText returns the text for the machine's name in a stage's document, empty if the stage
// does not set the name. An edge machine has the name of its pool.
func (p Pool) machineNameText(stage string) string {
	switch {
	case stage != stageBootstrap || p.CloudProvider == osm.CloudProviderAWS:
		return ""
	case p.CloudProvider == osm.CloudProviderEdge:
		return p.Name
	}
	return userdata.MachineName
}
