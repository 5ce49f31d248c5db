package taskdef

// Refs say where the parts of a pod's payload stand. What is empty is not
// needed. All but PodName and PodKey are the same for all pods of one shape, and
// stand in the definition.
type Refs struct {
	// EnvARN is the full ARN of the secret with the values of variables that were
	// made of Secrets, as JSON (SecretEnv).
	EnvARN string
	// FilesARNs are the full ARNs of the parts of the files that the shape shares,
	// in order. They are given to burstlet-init as intask.FilesEnv(i).
	FilesARNs []string
	// PullARNs are, by container name, the full ARNs of registry logins.
	PullARNs map[string]string
	// FilesTag is short for what the shape shares: another for other files.
	FilesTag string
	// PodName is the name of the secret with the files of this pod alone, and of those
	// that changed since its launch; PodKey is what it is encrypted with. They travel in
	// overrides. Empty where the pod has no files.
	PodName, PodKey string
	// ReportKey is what burstlet-agent signs with what it tells of the pod; it travels in
	// overrides. Empty: it tells nothing.
	ReportKey string
	// PodStored is true where there are files of this pod alone at its launch.
	PodStored bool
}

// FilesTagLength is how many characters Refs.FilesTag has.
const FilesTagLength = 8
