package ecs

import (
	"encoding/xml"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Role is an IAM role that exists.
type Role struct {
	ARN string
	// Trusts are the services that may assume it.
	Trusts []string
	// Trust is the whole trust policy, in the place of one that follows from Trusts.
	Trust string
}

// contentTypeQuery is that of the Query protocol: a form, answered in XML (STS, IAM
// and EC2 API references).
const contentTypeQuery = "application/x-www-form-urlencoded"

// queryHandler answers an action of a Query API with what stands between the tags of
// its response.
type queryHandler func(s *Server, form url.Values) (string, *apiError)

// queryActions are those of STS, IAM and EC2 that tell what there is.
var queryActions = map[string]struct {
	service string
	handle  queryHandler
}{
	"GetCallerIdentity":       {"sts", (*Server).callerIdentity},
	"GetRole":                 {"iam", (*Server).getRole},
	"SimulatePrincipalPolicy": {"iam", (*Server).simulatePolicy},
	"DescribeSubnets":         {"ec2", (*Server).describeSubnets},
	"DescribeSecurityGroups":  {"ec2", (*Server).describeGroups},
}

// callerARN is who calls the server.
func (s *Server) callerARN() string {
	return fmt.Sprintf("arn:aws:sts::%s:assumed-role/burstlet/caller", s.cfg.Account)
}

// serveQuery answers a call of a Query API.
func (s *Server) serveQuery(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	form, formErr := url.ParseQuery(string(body))
	action, known := queryActions[form.Get("Action")]
	if err != nil || formErr != nil || !known {
		writeQueryError(w, "", failf("InvalidAction", "Could not find operation %s", form.Get("Action")))
		return
	}
	s.enter(action.service, form.Get("Action"))
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, e := s.authenticateIn(r, action.service, s.signingRegion(action.service)); e != nil {
		writeQueryError(w, action.service, &apiError{
			Code: strings.Replace(e.Code, "UnrecognizedClientException", "InvalidClientTokenId", 1), Message: e.Message,
			Status: http.StatusForbidden,
		})
		return
	}
	inner, e := action.handle(s, form)
	if e != nil {
		writeQueryError(w, action.service, e)
		return
	}
	name := form.Get("Action")
	if action.service != "ec2" {
		inner = "<" + name + "Result>" + inner + "</" + name + "Result>"
	}
	w.Header().Set("Content-Type", "text/xml")
	// The client has gone if this fails; nobody is left to tell.
	_, _ = io.WriteString(w, "<"+name+"Response>"+inner+"</"+name+"Response>")
}

// signingRegion is where requests to a service are signed for: IAM is global.
func (s *Server) signingRegion(service string) string {
	if service == "iam" {
		return "us-east-1"
	}
	return s.cfg.Region
}

func writeQueryError(w http.ResponseWriter, service string, e *apiError) {
	status := e.Status
	if status == 0 {
		status = http.StatusBadRequest
	}
	inner := "<Error><Code>" + escaped(e.Code) + "</Code><Message>" + escaped(e.Message) + "</Message></Error>"
	if service == "ec2" {
		inner = "<Response><Errors>" + inner + "</Errors></Response>"
	} else {
		inner = "<ErrorResponse>" + inner + "</ErrorResponse>"
	}
	w.Header().Set("Content-Type", "text/xml")
	w.WriteHeader(status)
	_, _ = io.WriteString(w, inner) // as above
}

func escaped(text string) string {
	var out strings.Builder
	// A builder takes all that is written to it.
	_ = xml.EscapeText(&out, []byte(text))
	return out.String()
}

// callerIdentity is STS API, GetCallerIdentity: "No permissions are required".
func (s *Server) callerIdentity(url.Values) (string, *apiError) {
	return "<Arn>" + s.callerARN() + "</Arn><UserId>AROAEXAMPLE:caller</UserId><Account>" + s.cfg.Account +
		"</Account>", nil
}

// authorizeQuery is authorize with the code that a service gives.
func (s *Server) authorizeQuery(code, action, resource string) *apiError {
	if e := s.authorize(action, resource); e != nil {
		return &apiError{Code: code, Message: e.Message, Status: http.StatusForbidden}
	}
	return nil
}

// getRole is IAM API, GetRole: names are unique whatever the path, and the trust
// policy is encoded as a URL.
func (s *Server) getRole(form url.Values) (string, *apiError) {
	name := form.Get("RoleName")
	own := fmt.Sprintf("arn:aws:iam::%s:role/%s", s.cfg.Account, name)
	if e := s.authorizeQuery("AccessDenied", "iam:GetRole", own); e != nil {
		return "", e
	}
	role := Role{ARN: own, Trusts: []string{"ecs-tasks.amazonaws.com", "ecs.amazonaws.com"}}
	if s.cfg.Roles != nil && name != "burstlet" {
		i := slices.IndexFunc(s.cfg.Roles, func(r Role) bool { return strings.HasSuffix(r.ARN, "/"+name) })
		if i < 0 {
			return "", &apiError{
				Code: "NoSuchEntity", Message: "The role with name " + name + " cannot be found.", Status: http.StatusNotFound,
			}
		}
		role = s.cfg.Roles[i]
	}
	trust := `{"Statement":[{"Effect":"Allow","Action":"sts:AssumeRole","Principal":{"Service":["` +
		strings.Join(role.Trusts, `","`) + `"]}}]}`
	if role.Trust != "" {
		trust = role.Trust
	}
	return "<Role><Arn>" + escaped(role.ARN) + "</Arn><AssumeRolePolicyDocument>" + url.QueryEscape(trust) +
		"</AssumeRolePolicyDocument></Role>", nil
}

// simulatePolicy is IAM API, SimulatePrincipalPolicy, of one action on one resource.
// Conditions are not evaluated. A role whose name ends in "execution" stands for the
// execution role of tasks, any but the caller's for the task role.
func (s *Server) simulatePolicy(form url.Values) (string, *apiError) {
	principal := form.Get("PolicySourceArn")
	if e := s.authorizeQuery("AccessDenied", "iam:SimulatePrincipalPolicy", principal); e != nil {
		return "", e
	}
	if !strings.HasPrefix(principal, "arn:aws:iam::"+s.cfg.Account+":") {
		return "", failf("InvalidInput", "Invalid Entity Arn: %s does not clearly define entity type and name.", principal)
	}
	action, decision := form.Get("ActionNames.member.1"), "implicitDeny"
	who := TaskRole
	switch {
	case strings.HasSuffix(principal, ":role/burstlet"): // callerARN's
		who = Caller
	case strings.HasSuffix(principal, "execution"):
		who = ExecutionRole
	}
	if s.allowed(who, action, form.Get("ResourceArns.member.1")) {
		decision = "allowed"
	}
	return "<EvaluationResults><member><EvalActionName>" + escaped(action) + "</EvalActionName><EvalDecision>" + decision +
		"</EvalDecision></member></EvaluationResults>", nil
}

// numbered are the values of a numbered parameter.
func numbered(form url.Values, name string) []string {
	var out []string
	for i := 1; form.Has(name + "." + strconv.Itoa(i)); i++ {
		out = append(out, form.Get(name+"."+strconv.Itoa(i)))
	}
	return out
}

// freeAddresses of a subnet whose Subnet does not say.
const freeAddresses = 250

// describeSubnets is EC2 API, DescribeSubnets.
func (s *Server) describeSubnets(form url.Values) (string, *apiError) {
	if e := s.authorizeQuery("UnauthorizedOperation", "ec2:DescribeSubnets", "*"); e != nil {
		return "", e
	}
	var out strings.Builder
	for _, id := range numbered(form, "SubnetId") {
		subnet := Subnet{ID: id, Zone: s.cfg.Region + "a", VPC: "vpc-1"}
		if s.cfg.Subnets != nil {
			i := slices.IndexFunc(s.cfg.Subnets, func(n Subnet) bool { return n.ID == id })
			if i < 0 {
				return "", failf("InvalidSubnetID.NotFound", "The subnet ID '%s' does not exist", id)
			}
			subnet = s.cfg.Subnets[i]
		}
		fmt.Fprintf(&out, "<item><subnetId>%s</subnetId><vpcId>%s</vpcId>"+
			"<availabilityZone>%s</availabilityZone><availableIpAddressCount>%d</availableIpAddressCount></item>",
			escaped(subnet.ID), escaped(subnet.VPC), escaped(subnet.Zone), freeAddresses)
	}
	return "<subnetSet>" + out.String() + "</subnetSet>", nil
}

// describeGroups is EC2 API, DescribeSecurityGroups. All are in one VPC.
func (s *Server) describeGroups(form url.Values) (string, *apiError) {
	if e := s.authorizeQuery("UnauthorizedOperation", "ec2:DescribeSecurityGroups", "*"); e != nil {
		return "", e
	}
	vpc := "vpc-1"
	if len(s.cfg.Subnets) > 0 {
		vpc = s.cfg.Subnets[0].VPC
	}
	var out strings.Builder
	for _, id := range numbered(form, "GroupId") {
		if s.cfg.SecurityGroups != nil && !slices.Contains(s.cfg.SecurityGroups, id) {
			return "", failf("InvalidGroup.NotFound", "The security group '%s' does not exist", id)
		}
		fmt.Fprintf(&out, "<item><groupId>%s</groupId><vpcId>%s</vpcId></item>", escaped(id), escaped(vpc))
	}
	return "<securityGroupInfo>" + out.String() + "</securityGroupInfo>", nil
}

// quotaActions are Service Quotas API, GetServiceQuota, with the vCPUs of Fargate.
func (s *Server) quotaActions() map[string]handler {
	return map[string]handler{"GetServiceQuota": func(c *request) (any, *apiError) {
		var in struct {
			ServiceCode *string `json:"ServiceCode"`
			QuotaCode   *string `json:"QuotaCode"`
		}
		if e := decode(c.body, &in); e != nil {
			return nil, e
		}
		if e := s.authorize("servicequotas:GetServiceQuota", "*"); e != nil {
			return nil, e
		}
		quota, ok := map[string]float64{"L-3032A538": s.cfg.VCPU, "L-36FBB829": s.cfg.SpotVCPU}[value(in.QuotaCode)]
		if !ok || value(in.ServiceCode) != "fargate" {
			return nil, failf("NoSuchResourceException", "The specified quota does not exist.")
		}
		if quota == 0 {
			quota = roomyQuota
		}
		return map[string]any{"Quota": map[string]any{"QuotaCode": in.QuotaCode, "Value": quota}}, nil
	}}
}

// roomyQuota stands for an account without a quota.
const roomyQuota = 4000

// registryActions are ECR API, GetAuthorizationToken. There are no images.
func (s *Server) registryActions() map[string]handler {
	return map[string]handler{"GetAuthorizationToken": func(c *request) (any, *apiError) {
		if e := s.authorize("ecr:GetAuthorizationToken", "*"); e != nil {
			return nil, e
		}
		return map[string]any{"authorizationData": []any{map[string]any{
			"authorizationToken": encodeToken("AWS:not-a-password"), "expiresAt": epoch(c.now.Add(12 * time.Hour)),
			"proxyEndpoint": fmt.Sprintf("https://%s.dkr.ecr.%s.amazonaws.com", s.cfg.Account, s.cfg.Region),
		}}}, nil
	}}
}

// isQuery is true of a call of a Query API.
func isQuery(r *http.Request) bool {
	return strings.HasPrefix(r.Header.Get("Content-Type"), contentTypeQuery)
}

// dated stamps an answer, as AWS does.
func dated(w http.ResponseWriter) {
	w.Header().Set("Date", time.Now().UTC().Format(http.TimeFormat))
}
