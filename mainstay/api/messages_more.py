"""The messages of Kubernetes of the other groups. Made by tools/make-messages; schema.py reads it."""

from typing import Final

PACKAGES: Final = {
    "admissionregistration.v1": """
ApplyConfiguration expression:1
AuditAnnotation key!:1 valueExpression!:2
ExpressionWarning fieldRef!:2 warning!:3
JSONPatch expression:1
MatchCondition name!:1 expression!:2
MatchResources namespaceSelector!:1:meta.v1.LabelSelector objectSelector!:2:meta.v1.LabelSelector
 resourceRules:3:*NamedRuleWithOperations excludeResourceRules:4:*NamedRuleWithOperations matchPolicy!:7
MutatingAdmissionPolicy metadata:1:meta.v1.ObjectMeta spec:2:MutatingAdmissionPolicySpec
MutatingAdmissionPolicyBinding metadata:1:meta.v1.ObjectMeta spec:2:MutatingAdmissionPolicyBindingSpec
MutatingAdmissionPolicyBindingList metadata:1:meta.v1.ListMeta items!:2:*MutatingAdmissionPolicyBinding
MutatingAdmissionPolicyBindingSpec policyName:1 paramRef!:2:ParamRef matchResources!:3:MatchResources
MutatingAdmissionPolicyList metadata:1:meta.v1.ListMeta items!:2:*MutatingAdmissionPolicy
MutatingAdmissionPolicySpec paramKind!:1:ParamKind matchConstraints!:2:MatchResources variables:3:*Variable
 mutations:4:*Mutation failurePolicy!:5 matchConditions:6:*MatchCondition reinvocationPolicy:7
MutatingWebhook name!:1 clientConfig!:2:WebhookClientConfig rules:3:*RuleWithOperations failurePolicy!:4 matchPolicy!:9
 namespaceSelector!:5:meta.v1.LabelSelector objectSelector!:11:meta.v1.LabelSelector sideEffects!:6
 timeoutSeconds!:7:int32 admissionReviewVersions!:8:* reinvocationPolicy!:10 matchConditions:12:*MatchCondition
MutatingWebhookConfiguration metadata:1:meta.v1.ObjectMeta webhooks:2:*MutatingWebhook
MutatingWebhookConfigurationList metadata:1:meta.v1.ListMeta items!:2:*MutatingWebhookConfiguration
Mutation patchType!:2 applyConfiguration!:3:ApplyConfiguration jsonPatch!:4:JSONPatch
NamedRuleWithOperations resourceNames:1:* ruleWithOperations^:2:RuleWithOperations
ParamKind apiVersion:1 kind:2
ParamRef name:1 namespace:2 selector!:3:meta.v1.LabelSelector parameterNotFoundAction!:4
Rule apiGroups:1:* apiVersions:2:* resources:3:* scope!:4
RuleWithOperations operations:1:* rule^:2:Rule
ServiceReference namespace!:1 name!:2 path!:3 port!:4:int32
TypeChecking expressionWarnings:1:*ExpressionWarning
ValidatingAdmissionPolicy metadata:1:meta.v1.ObjectMeta spec:2:ValidatingAdmissionPolicySpec
 status:3:ValidatingAdmissionPolicyStatus
ValidatingAdmissionPolicyBinding metadata:1:meta.v1.ObjectMeta spec:2:ValidatingAdmissionPolicyBindingSpec
ValidatingAdmissionPolicyBindingList metadata:1:meta.v1.ListMeta items!:2:*ValidatingAdmissionPolicyBinding
ValidatingAdmissionPolicyBindingSpec policyName:1 paramRef!:2:ParamRef matchResources!:3:MatchResources
 validationActions:4:*
ValidatingAdmissionPolicyList metadata:1:meta.v1.ListMeta items!:2:*ValidatingAdmissionPolicy
ValidatingAdmissionPolicySpec paramKind!:1:ParamKind matchConstraints!:2:MatchResources validations:3:*Validation
 failurePolicy!:4 auditAnnotations:5:*AuditAnnotation matchConditions:6:*MatchCondition variables:7:*Variable
ValidatingAdmissionPolicyStatus observedGeneration:1:int64 typeChecking!:2:TypeChecking conditions:3:*meta.v1.Condition
ValidatingWebhook name!:1 clientConfig!:2:WebhookClientConfig rules:3:*RuleWithOperations failurePolicy!:4
 matchPolicy!:9 namespaceSelector!:5:meta.v1.LabelSelector objectSelector!:10:meta.v1.LabelSelector sideEffects!:6
 timeoutSeconds!:7:int32 admissionReviewVersions!:8:* matchConditions:11:*MatchCondition
ValidatingWebhookConfiguration metadata:1:meta.v1.ObjectMeta webhooks:2:*ValidatingWebhook
ValidatingWebhookConfigurationList metadata:1:meta.v1.ListMeta items!:2:*ValidatingWebhookConfiguration
Validation expression!:1 message:2 reason!:3 messageExpression:4
Variable name!:1 expression!:2
WebhookClientConfig url!:3 service!:1:ServiceReference caBundle:2:bytes
""",
    "apiextensions.v1": """
ConversionRequest uid!:1 desiredAPIVersion!:2 objects!:3:*runtime.RawExtension
ConversionResponse uid!:1 convertedObjects!:2:*runtime.RawExtension result!:3:meta.v1.Status
ConversionReview request!:1:ConversionRequest response!:2:ConversionResponse
CustomResourceColumnDefinition name!:1 type!:2 format:3 description:4 priority:5:int32 jsonPath!:6
CustomResourceConversion strategy!:1 webhook!:2:WebhookConversion
CustomResourceDefinition metadata:1:meta.v1.ObjectMeta spec!:2:CustomResourceDefinitionSpec
 status:3:CustomResourceDefinitionStatus
CustomResourceDefinitionCondition type!:1 status!:2 lastTransitionTime:3:meta.v1.Time reason:4 message:5
 observedGeneration:6:int64
CustomResourceDefinitionList metadata:1:meta.v1.ListMeta items!:2:*CustomResourceDefinition
CustomResourceDefinitionNames plural!:1 singular:2 shortNames:3:* kind!:4 listKind:5 categories:6:*
CustomResourceDefinitionSpec group!:1 names!:3:CustomResourceDefinitionNames scope!:4
 versions!:7:*CustomResourceDefinitionVersion conversion!:9:CustomResourceConversion preserveUnknownFields:10:bool
CustomResourceDefinitionStatus conditions!:1:*CustomResourceDefinitionCondition
 acceptedNames!:2:CustomResourceDefinitionNames storedVersions!:3:* observedGeneration:4:int64
CustomResourceDefinitionVersion name!:1 served!:2:bool storage!:3:bool deprecated:7:bool deprecationWarning!:8
 schema!:4:CustomResourceValidation subresources!:5:CustomResourceSubresources
 additionalPrinterColumns:6:*CustomResourceColumnDefinition selectableFields:9:*SelectableField
CustomResourceSubresourceScale specReplicasPath!:1 statusReplicasPath!:2 labelSelectorPath!:3
CustomResourceSubresources status!:1:CustomResourceSubresourceStatus scale!:2:CustomResourceSubresourceScale
CustomResourceValidation openAPIV3Schema!:1:JSONSchemaProps
ExternalDocumentation description:1 url:2
JSON raw!:1:bytes
JSONSchemaProps id:1 $schema:2 $ref!:3 description:4 type:5 format:6 title:7 default!:8:JSON maximum!:9:double
 exclusiveMaximum:10:bool minimum!:11:double exclusiveMinimum:12:bool maxLength!:13:int64 minLength!:14:int64 pattern:15
 maxItems!:16:int64 minItems!:17:int64 uniqueItems:18:bool multipleOf!:19:double enum:20:*JSON maxProperties!:21:int64
 minProperties!:22:int64 required:23:* items!:24:JSONSchemaPropsOrArray allOf:25:*JSONSchemaProps
 oneOf:26:*JSONSchemaProps anyOf:27:*JSONSchemaProps not!:28:JSONSchemaProps properties:29:%JSONSchemaProps
 additionalProperties!:30:JSONSchemaPropsOrBool patternProperties:31:%JSONSchemaProps
 dependencies:32:%JSONSchemaPropsOrStringArray additionalItems!:33:JSONSchemaPropsOrBool definitions:34:%JSONSchemaProps
 externalDocs!:35:ExternalDocumentation example!:36:JSON nullable:37:bool x-kubernetes-preserve-unknown-fields!:38:bool
 x-kubernetes-embedded-resource:39:bool x-kubernetes-int-or-string:40:bool x-kubernetes-list-map-keys:41:*
 x-kubernetes-list-type!:42 x-kubernetes-map-type!:43 x-kubernetes-validations:44:*ValidationRule
JSONSchemaPropsOrArray schema:1:JSONSchemaProps jSONSchemas:2:*JSONSchemaProps
JSONSchemaPropsOrBool allows:1:bool schema:2:JSONSchemaProps
JSONSchemaPropsOrStringArray schema:1:JSONSchemaProps property:2:*
SelectableField jsonPath!:1
ServiceReference namespace!:1 name!:2 path!:3 port!:4:int32
ValidationRule rule!:1 message:2 messageExpression:3 reason!:4 fieldPath:5 optionalOldSelf!:6:bool
WebhookClientConfig url!:3 service!:1:ServiceReference caBundle:2:bytes
WebhookConversion clientConfig!:2:WebhookClientConfig conversionReviewVersions!:3:*
""",
    "apps.v1": """
ControllerRevision metadata:1:meta.v1.ObjectMeta data:2:runtime.RawExtension revision!:3:int64
ControllerRevisionList metadata:1:meta.v1.ListMeta items!:2:*ControllerRevision
DaemonSet metadata:1:meta.v1.ObjectMeta spec:2:DaemonSetSpec status:3:DaemonSetStatus
DaemonSetCondition type!:1 status!:2 lastTransitionTime:3:meta.v1.Time reason:4 message:5
DaemonSetList metadata:1:meta.v1.ListMeta items!:2:*DaemonSet
DaemonSetSpec selector!:1:meta.v1.LabelSelector template!:2:core.v1.PodTemplateSpec
 updateStrategy:3:DaemonSetUpdateStrategy minReadySeconds:4:int32 revisionHistoryLimit!:6:int32
DaemonSetStatus currentNumberScheduled!:1:int32 numberMisscheduled!:2:int32 desiredNumberScheduled!:3:int32
 numberReady!:4:int32 observedGeneration:5:int64 updatedNumberScheduled:6:int32 numberAvailable:7:int32
 numberUnavailable:8:int32 collisionCount!:9:int32 conditions:10:*DaemonSetCondition
DaemonSetUpdateStrategy type:1 rollingUpdate!:2:RollingUpdateDaemonSet
Deployment metadata:1:meta.v1.ObjectMeta spec:2:DeploymentSpec status:3:DeploymentStatus
DeploymentCondition type!:1 status!:2 lastUpdateTime:6:meta.v1.Time lastTransitionTime:7:meta.v1.Time reason:4 message:5
DeploymentList metadata:1:meta.v1.ListMeta items!:2:*Deployment
DeploymentSpec replicas!:1:int32 selector!:2:meta.v1.LabelSelector template!:3:core.v1.PodTemplateSpec
 strategy:4:DeploymentStrategy minReadySeconds:5:int32 revisionHistoryLimit!:6:int32 paused:7:bool
 progressDeadlineSeconds!:9:int32
DeploymentStatus observedGeneration:1:int64 replicas:2:int32 updatedReplicas:3:int32 readyReplicas:7:int32
 availableReplicas:4:int32 unavailableReplicas:5:int32 terminatingReplicas!:9:int32 conditions:6:*DeploymentCondition
 collisionCount!:8:int32
DeploymentStrategy type:1 rollingUpdate!:2:RollingUpdateDeployment
ReplicaSet metadata:1:meta.v1.ObjectMeta spec:2:ReplicaSetSpec status:3:ReplicaSetStatus
ReplicaSetCondition type!:1 status!:2 lastTransitionTime:3:meta.v1.Time reason:4 message:5
ReplicaSetList metadata:1:meta.v1.ListMeta items!:2:*ReplicaSet
ReplicaSetSpec replicas!:1:int32 minReadySeconds:4:int32 selector!:2:meta.v1.LabelSelector
 template:3:core.v1.PodTemplateSpec
ReplicaSetStatus replicas!:1:int32 fullyLabeledReplicas:2:int32 readyReplicas:4:int32 availableReplicas:5:int32
 terminatingReplicas!:7:int32 observedGeneration:3:int64 conditions:6:*ReplicaSetCondition
RollingUpdateDaemonSet maxUnavailable!:1:intstr.IntOrString maxSurge!:2:intstr.IntOrString
RollingUpdateDeployment maxUnavailable!:1:intstr.IntOrString maxSurge!:2:intstr.IntOrString
RollingUpdateStatefulSetStrategy partition!:1:int32 maxUnavailable!:2:intstr.IntOrString
StatefulSet metadata:1:meta.v1.ObjectMeta spec:2:StatefulSetSpec status:3:StatefulSetStatus
StatefulSetCondition type!:1 status!:2 lastTransitionTime:3:meta.v1.Time reason:4 message:5
StatefulSetList metadata:1:meta.v1.ListMeta items!:2:*StatefulSet
StatefulSetOrdinals start!:1:int32
StatefulSetPersistentVolumeClaimRetentionPolicy whenDeleted:1 whenScaled:2
StatefulSetSpec replicas!:1:int32 selector!:2:meta.v1.LabelSelector template!:3:core.v1.PodTemplateSpec
 volumeClaimTemplates:4:*core.v1.PersistentVolumeClaim serviceName!:5 podManagementPolicy:6
 updateStrategy:7:StatefulSetUpdateStrategy revisionHistoryLimit!:8:int32 minReadySeconds:9:int32
 persistentVolumeClaimRetentionPolicy!:10:StatefulSetPersistentVolumeClaimRetentionPolicy
 ordinals!:11:StatefulSetOrdinals
StatefulSetStatus observedGeneration:1:int64 replicas!:2:int32 readyReplicas:3:int32 currentReplicas:4:int32
 updatedReplicas:5:int32 currentRevision:6 updateRevision:7 collisionCount!:9:int32 conditions:10:*StatefulSetCondition
 availableReplicas!:11:int32
StatefulSetUpdateStrategy type:1 rollingUpdate!:2:RollingUpdateStatefulSetStrategy
""",
    "authentication.v1": """
BoundObjectReference kind:1 apiVersion:2 name:3 uid:4
ExtraValue items:1:*
SelfSubjectReview metadata:1:meta.v1.ObjectMeta status:2:SelfSubjectReviewStatus
SelfSubjectReviewStatus userInfo:1:UserInfo
TokenRequest metadata:1:meta.v1.ObjectMeta spec!:2:TokenRequestSpec status:3:TokenRequestStatus
TokenRequestSpec audiences!:1:* expirationSeconds!:4:int64 boundObjectRef!:3:BoundObjectReference
TokenRequestStatus token!:1 expirationTimestamp!:2:meta.v1.Time
TokenReview metadata:1:meta.v1.ObjectMeta spec!:2:TokenReviewSpec status:3:TokenReviewStatus
TokenReviewSpec token:1 audiences:2:*
TokenReviewStatus authenticated:1:bool user:2:UserInfo audiences:4:* error:3
UserInfo username:1 uid:2 groups:3:* extra:4:%ExtraValue
""",
    "authorization.v1": """
ExtraValue items:1:*
FieldSelectorAttributes rawSelector:1 requirements:2:*meta.v1.FieldSelectorRequirement
LabelSelectorAttributes rawSelector:1 requirements:2:*meta.v1.LabelSelectorRequirement
LocalSubjectAccessReview metadata:1:meta.v1.ObjectMeta spec!:2:SubjectAccessReviewSpec
 status:3:SubjectAccessReviewStatus
NonResourceAttributes path:1 verb:2
NonResourceRule verbs!:1:* nonResourceURLs:2:*
ResourceAttributes namespace:1 verb:2 group:3 version:4 resource:5 subresource:6 name:7
 fieldSelector!:8:FieldSelectorAttributes labelSelector!:9:LabelSelectorAttributes
ResourceRule verbs!:1:* apiGroups:2:* resources:3:* resourceNames:4:*
SelfSubjectAccessReview metadata:1:meta.v1.ObjectMeta spec!:2:SelfSubjectAccessReviewSpec
 status:3:SubjectAccessReviewStatus
SelfSubjectAccessReviewSpec resourceAttributes!:1:ResourceAttributes nonResourceAttributes!:2:NonResourceAttributes
SelfSubjectRulesReview metadata:1:meta.v1.ObjectMeta spec!:2:SelfSubjectRulesReviewSpec
 status:3:SubjectRulesReviewStatus
SelfSubjectRulesReviewSpec namespace:1
SubjectAccessReview metadata:1:meta.v1.ObjectMeta spec!:2:SubjectAccessReviewSpec status:3:SubjectAccessReviewStatus
SubjectAccessReviewSpec resourceAttributes!:1:ResourceAttributes nonResourceAttributes!:2:NonResourceAttributes user:3
 groups:4:* extra:5:%ExtraValue uid:6
SubjectAccessReviewStatus allowed!:1:bool denied:4:bool reason:2 evaluationError:3
SubjectRulesReviewStatus resourceRules!:1:*ResourceRule nonResourceRules!:2:*NonResourceRule incomplete!:3:bool
 evaluationError:4
""",
    "autoscaling.v1": """
ContainerResourceMetricSource name!:1 targetAverageUtilization!:2:int32 targetAverageValue!:3:quantity.Quantity
 container!:5
ContainerResourceMetricStatus name!:1 currentAverageUtilization!:2:int32 currentAverageValue!:3:quantity.Quantity
 container!:4
CrossVersionObjectReference kind!:1 name!:2 apiVersion:3
ExternalMetricSource metricName!:1 metricSelector!:2:meta.v1.LabelSelector targetValue!:3:quantity.Quantity
 targetAverageValue!:4:quantity.Quantity
ExternalMetricStatus metricName!:1 metricSelector!:2:meta.v1.LabelSelector currentValue!:3:quantity.Quantity
 currentAverageValue!:4:quantity.Quantity
HorizontalPodAutoscaler metadata:1:meta.v1.ObjectMeta spec:2:HorizontalPodAutoscalerSpec
 status:3:HorizontalPodAutoscalerStatus
HorizontalPodAutoscalerCondition type!:1 status!:2 lastTransitionTime:3:meta.v1.Time reason:4 message:5
HorizontalPodAutoscalerList metadata:1:meta.v1.ListMeta items!:2:*HorizontalPodAutoscaler
HorizontalPodAutoscalerSpec scaleTargetRef!:1:CrossVersionObjectReference minReplicas!:2:int32 maxReplicas!:3:int32
 targetCPUUtilizationPercentage!:4:int32
HorizontalPodAutoscalerStatus observedGeneration!:1:int64 lastScaleTime!:2:meta.v1.Time currentReplicas!:3:int32
 desiredReplicas!:4:int32 currentCPUUtilizationPercentage!:5:int32
MetricSpec type!:1 object!:2:ObjectMetricSource pods!:3:PodsMetricSource resource!:4:ResourceMetricSource
 containerResource!:7:ContainerResourceMetricSource external!:5:ExternalMetricSource
MetricStatus type!:1 object!:2:ObjectMetricStatus pods!:3:PodsMetricStatus resource!:4:ResourceMetricStatus
 containerResource!:7:ContainerResourceMetricStatus external!:5:ExternalMetricStatus
ObjectMetricSource target!:1:CrossVersionObjectReference metricName!:2 targetValue!:3:quantity.Quantity
 selector!:4:meta.v1.LabelSelector averageValue!:5:quantity.Quantity
ObjectMetricStatus target!:1:CrossVersionObjectReference metricName!:2 currentValue!:3:quantity.Quantity
 selector!:4:meta.v1.LabelSelector averageValue!:5:quantity.Quantity
PodsMetricSource metricName!:1 targetAverageValue!:2:quantity.Quantity selector!:3:meta.v1.LabelSelector
PodsMetricStatus metricName!:1 currentAverageValue!:2:quantity.Quantity selector!:3:meta.v1.LabelSelector
ResourceMetricSource name!:1 targetAverageUtilization!:2:int32 targetAverageValue!:3:quantity.Quantity
ResourceMetricStatus name!:1 currentAverageUtilization!:2:int32 currentAverageValue!:3:quantity.Quantity
Scale metadata:1:meta.v1.ObjectMeta spec:2:ScaleSpec status:3:ScaleStatus
ScaleSpec replicas:1:int32
ScaleStatus replicas!:1:int32 selector:2
""",
    "autoscaling.v2": """
ContainerResourceMetricSource name!:1 target!:2:MetricTarget container!:3
ContainerResourceMetricStatus name!:1 current!:2:MetricValueStatus container!:3
CrossVersionObjectReference kind!:1 name!:2 apiVersion:3
ExternalMetricSource metric!:1:MetricIdentifier target!:2:MetricTarget
ExternalMetricStatus metric!:1:MetricIdentifier current!:2:MetricValueStatus
HPAScalingPolicy type!:1 value!:2:int32 periodSeconds!:3:int32
HPAScalingRules stabilizationWindowSeconds!:3:int32 selectPolicy!:1 policies:2:*HPAScalingPolicy
 tolerance!:4:quantity.Quantity
HorizontalPodAutoscaler metadata:1:meta.v1.ObjectMeta spec:2:HorizontalPodAutoscalerSpec
 status:3:HorizontalPodAutoscalerStatus
HorizontalPodAutoscalerBehavior scaleUp!:1:HPAScalingRules scaleDown!:2:HPAScalingRules
HorizontalPodAutoscalerCondition type!:1 status!:2 lastTransitionTime:3:meta.v1.Time reason:4 message:5
HorizontalPodAutoscalerList metadata:1:meta.v1.ListMeta items!:2:*HorizontalPodAutoscaler
HorizontalPodAutoscalerSpec scaleTargetRef!:1:CrossVersionObjectReference minReplicas!:2:int32 maxReplicas!:3:int32
 metrics:4:*MetricSpec behavior!:5:HorizontalPodAutoscalerBehavior
HorizontalPodAutoscalerStatus observedGeneration!:1:int64 lastScaleTime!:2:meta.v1.Time currentReplicas:3:int32
 desiredReplicas!:4:int32 currentMetrics!:5:*MetricStatus conditions:6:*HorizontalPodAutoscalerCondition
MetricIdentifier name!:1 selector!:2:meta.v1.LabelSelector
MetricSpec type!:1 object!:2:ObjectMetricSource pods!:3:PodsMetricSource resource!:4:ResourceMetricSource
 containerResource!:7:ContainerResourceMetricSource external!:5:ExternalMetricSource
MetricStatus type!:1 object!:2:ObjectMetricStatus pods!:3:PodsMetricStatus resource!:4:ResourceMetricStatus
 containerResource!:7:ContainerResourceMetricStatus external!:5:ExternalMetricStatus
MetricTarget type!:1 value!:2:quantity.Quantity averageValue!:3:quantity.Quantity averageUtilization!:4:int32
MetricValueStatus value!:1:quantity.Quantity averageValue!:2:quantity.Quantity averageUtilization!:3:int32
ObjectMetricSource describedObject!:1:CrossVersionObjectReference target!:2:MetricTarget metric!:3:MetricIdentifier
ObjectMetricStatus metric!:1:MetricIdentifier current!:2:MetricValueStatus
 describedObject!:3:CrossVersionObjectReference
PodsMetricSource metric!:1:MetricIdentifier target!:2:MetricTarget
PodsMetricStatus metric!:1:MetricIdentifier current!:2:MetricValueStatus
ResourceMetricSource name!:1 target!:2:MetricTarget
ResourceMetricStatus name!:1 current!:2:MetricValueStatus
""",
    "batch.v1": """
CronJob metadata:1:meta.v1.ObjectMeta spec:2:CronJobSpec status:3:CronJobStatus
CronJobList metadata:1:meta.v1.ListMeta items!:2:*CronJob
CronJobSpec schedule!:1 timeZone!:8 startingDeadlineSeconds!:2:int64 concurrencyPolicy:3 suspend!:4:bool
 jobTemplate!:5:JobTemplateSpec successfulJobsHistoryLimit!:6:int32 failedJobsHistoryLimit!:7:int32
CronJobStatus active:1:*core.v1.ObjectReference lastScheduleTime!:4:meta.v1.Time lastSuccessfulTime!:5:meta.v1.Time
Job metadata:1:meta.v1.ObjectMeta spec:2:JobSpec status:3:JobStatus
JobCondition type!:1 status!:2 lastProbeTime:3:meta.v1.Time lastTransitionTime:4:meta.v1.Time reason:5 message:6
JobList metadata:1:meta.v1.ListMeta items!:2:*Job
JobSpec parallelism!:1:int32 completions!:2:int32 activeDeadlineSeconds!:3:int64 podFailurePolicy!:11:PodFailurePolicy
 successPolicy!:16:SuccessPolicy backoffLimit!:7:int32 backoffLimitPerIndex!:12:int32 maxFailedIndexes!:13:int32
 selector!:4:meta.v1.LabelSelector manualSelector!:5:bool template!:6:core.v1.PodTemplateSpec
 ttlSecondsAfterFinished!:8:int32 completionMode!:9 suspend!:10:bool podReplacementPolicy!:14 managedBy!:15
JobStatus conditions:1:*JobCondition startTime!:2:meta.v1.Time completionTime!:3:meta.v1.Time active:4:int32
 succeeded:5:int32 failed:6:int32 terminating!:11:int32 completedIndexes:7 failedIndexes!:10
 uncountedTerminatedPods!:8:UncountedTerminatedPods ready!:9:int32
JobTemplateSpec metadata:1:meta.v1.ObjectMeta spec:2:JobSpec
PodFailurePolicy rules!:1:*PodFailurePolicyRule
PodFailurePolicyOnExitCodesRequirement containerName!:1 operator!:2 values!:3:*int32
PodFailurePolicyOnPodConditionsPattern type!:1 status!:2
PodFailurePolicyRule action!:1 onExitCodes!:2:PodFailurePolicyOnExitCodesRequirement
 onPodConditions:3:*PodFailurePolicyOnPodConditionsPattern
SuccessPolicy rules!:1:*SuccessPolicyRule
SuccessPolicyRule succeededIndexes!:1 succeededCount!:2:int32
UncountedTerminatedPods succeeded:1:* failed:2:*
""",
    "certificates.v1": """
CertificateSigningRequest metadata:1:meta.v1.ObjectMeta spec!:2:CertificateSigningRequestSpec
 status:3:CertificateSigningRequestStatus
CertificateSigningRequestCondition type!:1 status!:6 reason:2 message:3 lastUpdateTime:4:meta.v1.Time
 lastTransitionTime:5:meta.v1.Time
CertificateSigningRequestList metadata:1:meta.v1.ListMeta items!:2:*CertificateSigningRequest
CertificateSigningRequestSpec request!:1:bytes signerName!:7 expirationSeconds!:8:int32 usages:5:* username:2 uid:3
 groups:4:* extra:6:%ExtraValue
CertificateSigningRequestStatus conditions:1:*CertificateSigningRequestCondition certificate:2:bytes
ExtraValue items:1:*
""",
    "coordination.v1": """
Lease metadata:1:meta.v1.ObjectMeta spec:2:LeaseSpec
LeaseList metadata:1:meta.v1.ListMeta items!:2:*Lease
LeaseSpec holderIdentity!:1 leaseDurationSeconds!:2:int32 acquireTime!:3:meta.v1.MicroTime
 renewTime!:4:meta.v1.MicroTime leaseTransitions!:5:int32 strategy!:6 preferredHolder!:7
""",
    "discovery.v1": """
Endpoint addresses!:1:* conditions:2:EndpointConditions hostname!:3 targetRef!:4:core.v1.ObjectReference
 deprecatedTopology:5:% nodeName!:6 zone!:7 hints!:8:EndpointHints
EndpointConditions ready!:1:bool serving!:2:bool terminating!:3:bool
EndpointHints forZones:1:*ForZone forNodes:2:*ForNode
EndpointPort name!:1 protocol!:2 port!:3:int32 appProtocol!:4
EndpointSlice metadata:1:meta.v1.ObjectMeta addressType!:4 endpoints!:2:*Endpoint ports!:3:*EndpointPort
EndpointSliceList metadata:1:meta.v1.ListMeta items!:2:*EndpointSlice
ForNode name!:1
ForZone name!:1
""",
    "events.v1": """
Event metadata!:1:meta.v1.ObjectMeta eventTime!:2:meta.v1.MicroTime series!:3:EventSeries reportingController:4
 reportingInstance:5 action:6 reason:7 regarding:8:core.v1.ObjectReference related!:9:core.v1.ObjectReference note:10
 type:11 deprecatedSource:12:core.v1.EventSource deprecatedFirstTimestamp:13:meta.v1.Time
 deprecatedLastTimestamp:14:meta.v1.Time deprecatedCount:15:int32
EventList metadata:1:meta.v1.ListMeta items!:2:*Event
EventSeries count!:1:int32 lastObservedTime!:2:meta.v1.MicroTime
""",
    "flowcontrol.v1": """
ExemptPriorityLevelConfiguration nominalConcurrencyShares!:1:int32 lendablePercent!:2:int32
FlowDistinguisherMethod type!:1
FlowSchema metadata:1:meta.v1.ObjectMeta spec:2:FlowSchemaSpec status:3:FlowSchemaStatus
FlowSchemaCondition type:1 status:2 lastTransitionTime:3:meta.v1.Time reason:4 message:5
FlowSchemaList metadata:1:meta.v1.ListMeta items!:2:*FlowSchema
FlowSchemaSpec priorityLevelConfiguration!:1:PriorityLevelConfigurationReference matchingPrecedence!:2:int32
 distinguisherMethod!:3:FlowDistinguisherMethod rules:4:*PolicyRulesWithSubjects
FlowSchemaStatus conditions:1:*FlowSchemaCondition
GroupSubject name!:1
LimitResponse type!:1 queuing!:2:QueuingConfiguration
LimitedPriorityLevelConfiguration nominalConcurrencyShares!:1:int32 limitResponse:2:LimitResponse
 lendablePercent!:3:int32 borrowingLimitPercent!:4:int32
NonResourcePolicyRule verbs!:1:* nonResourceURLs!:6:*
PolicyRulesWithSubjects subjects!:1:*Subject resourceRules:2:*ResourcePolicyRule
 nonResourceRules:3:*NonResourcePolicyRule
PriorityLevelConfiguration metadata:1:meta.v1.ObjectMeta spec:2:PriorityLevelConfigurationSpec
 status:3:PriorityLevelConfigurationStatus
PriorityLevelConfigurationCondition type:1 status:2 lastTransitionTime:3:meta.v1.Time reason:4 message:5
PriorityLevelConfigurationList metadata:1:meta.v1.ListMeta items!:2:*PriorityLevelConfiguration
PriorityLevelConfigurationReference name!:1
PriorityLevelConfigurationSpec type!:1 limited!:2:LimitedPriorityLevelConfiguration
 exempt!:3:ExemptPriorityLevelConfiguration
PriorityLevelConfigurationStatus conditions:1:*PriorityLevelConfigurationCondition
QueuingConfiguration queues!:1:int32 handSize!:2:int32 queueLengthLimit!:3:int32
ResourcePolicyRule verbs!:1:* apiGroups!:2:* resources!:3:* clusterScope:4:bool namespaces!:5:*
ServiceAccountSubject namespace!:1 name!:2
Subject kind!:1 user!:2:UserSubject group!:3:GroupSubject serviceAccount!:4:ServiceAccountSubject
UserSubject name!:1
""",
    "networking.v1": """
HTTPIngressPath path:1 pathType!:3 backend!:2:IngressBackend
HTTPIngressRuleValue paths!:1:*HTTPIngressPath
IPAddress metadata:1:meta.v1.ObjectMeta spec:2:IPAddressSpec
IPAddressList metadata:1:meta.v1.ListMeta items!:2:*IPAddress
IPAddressSpec parentRef!:1:ParentReference
IPBlock cidr!:1 except:2:*
Ingress metadata:1:meta.v1.ObjectMeta spec:2:IngressSpec status:3:IngressStatus
IngressBackend service!:4:IngressServiceBackend resource!:3:core.v1.TypedLocalObjectReference
IngressClass metadata:1:meta.v1.ObjectMeta spec:2:IngressClassSpec
IngressClassList metadata:1:meta.v1.ListMeta items!:2:*IngressClass
IngressClassParametersReference apiGroup!:1 kind!:2 name!:3 scope!:4 namespace!:5
IngressClassSpec controller:1 parameters!:2:IngressClassParametersReference
IngressList metadata:1:meta.v1.ListMeta items!:2:*Ingress
IngressLoadBalancerIngress ip:1 hostname:2 ports:4:*IngressPortStatus
IngressLoadBalancerStatus ingress:1:*IngressLoadBalancerIngress
IngressPortStatus port!:1:int32 protocol!:2 error!:3
IngressRule host:1 ingressRuleValue^:2:IngressRuleValue
IngressRuleValue http!:1:HTTPIngressRuleValue
IngressServiceBackend name!:1 port:2:ServiceBackendPort
IngressSpec ingressClassName!:4 defaultBackend!:1:IngressBackend tls:2:*IngressTLS rules:3:*IngressRule
IngressStatus loadBalancer:1:IngressLoadBalancerStatus
IngressTLS hosts:1:* secretName:2
NetworkPolicy metadata:1:meta.v1.ObjectMeta spec:2:NetworkPolicySpec
NetworkPolicyEgressRule ports:1:*NetworkPolicyPort to:2:*NetworkPolicyPeer
NetworkPolicyIngressRule ports:1:*NetworkPolicyPort from:2:*NetworkPolicyPeer
NetworkPolicyList metadata:1:meta.v1.ListMeta items!:2:*NetworkPolicy
NetworkPolicyPeer podSelector!:1:meta.v1.LabelSelector namespaceSelector!:2:meta.v1.LabelSelector ipBlock!:3:IPBlock
NetworkPolicyPort protocol!:1 port!:2:intstr.IntOrString endPort!:3:int32
NetworkPolicySpec podSelector!:1:meta.v1.LabelSelector ingress:2:*NetworkPolicyIngressRule
 egress:3:*NetworkPolicyEgressRule policyTypes:4:*
ParentReference group:1 resource:2 namespace:3 name:4
ServiceBackendPort name:1 number:2:int32
ServiceCIDR metadata:1:meta.v1.ObjectMeta spec:2:ServiceCIDRSpec status:3:ServiceCIDRStatus
ServiceCIDRList metadata:1:meta.v1.ListMeta items!:2:*ServiceCIDR
ServiceCIDRSpec cidrs:1:*
ServiceCIDRStatus conditions:1:*meta.v1.Condition
""",
    "node.v1": """
Overhead podFixed:1:%quantity.Quantity
RuntimeClass metadata:1:meta.v1.ObjectMeta handler!:2 overhead!:3:Overhead scheduling!:4:Scheduling
RuntimeClassList metadata:1:meta.v1.ListMeta items!:2:*RuntimeClass
Scheduling nodeSelector:1:% tolerations:2:*core.v1.Toleration
""",
    "policy.v1": """
Eviction metadata:1:meta.v1.ObjectMeta deleteOptions!:2:meta.v1.DeleteOptions
PodDisruptionBudget metadata:1:meta.v1.ObjectMeta spec:2:PodDisruptionBudgetSpec status:3:PodDisruptionBudgetStatus
PodDisruptionBudgetList metadata:1:meta.v1.ListMeta items!:2:*PodDisruptionBudget
PodDisruptionBudgetSpec minAvailable!:1:intstr.IntOrString selector:2:meta.v1.LabelSelector
 maxUnavailable!:3:intstr.IntOrString unhealthyPodEvictionPolicy!:4
PodDisruptionBudgetStatus observedGeneration:1:int64 disruptedPods:2:%meta.v1.Time disruptionsAllowed!:3:int32
 currentHealthy!:4:int32 desiredHealthy!:5:int32 expectedPods!:6:int32 conditions:7:*meta.v1.Condition
""",
    "rbac.v1": """
AggregationRule clusterRoleSelectors:1:*meta.v1.LabelSelector
ClusterRole metadata:1:meta.v1.ObjectMeta rules!:2:*PolicyRule aggregationRule!:3:AggregationRule
ClusterRoleBinding metadata:1:meta.v1.ObjectMeta subjects:2:*Subject roleRef!:3:RoleRef
ClusterRoleBindingList metadata:1:meta.v1.ListMeta items!:2:*ClusterRoleBinding
ClusterRoleList metadata:1:meta.v1.ListMeta items!:2:*ClusterRole
PolicyRule verbs!:1:* apiGroups:2:* resources:3:* resourceNames:4:* nonResourceURLs:5:*
Role metadata:1:meta.v1.ObjectMeta rules!:2:*PolicyRule
RoleBinding metadata:1:meta.v1.ObjectMeta subjects:2:*Subject roleRef!:3:RoleRef
RoleBindingList metadata:1:meta.v1.ListMeta items!:2:*RoleBinding
RoleList metadata:1:meta.v1.ListMeta items!:2:*Role
RoleRef apiGroup!:1 kind!:2 name!:3
Subject kind!:1 apiGroup:2 name!:3 namespace:4
""",
    "resource.v1": """
AllocatedDeviceStatus driver!:1 pool!:2 device!:3 shareID!:7 conditions!:4:*meta.v1.Condition
 data!:5:runtime.RawExtension networkData!:6:NetworkDeviceData
AllocationResult devices:1:DeviceAllocationResult nodeSelector!:3:core.v1.NodeSelector
 allocationTimestamp!:5:meta.v1.Time
CELDeviceSelector expression!:1
CapacityRequestPolicy default!:1:quantity.Quantity validValues:3:*quantity.Quantity
 validRange!:4:CapacityRequestPolicyRange
CapacityRequestPolicyRange min!:1:quantity.Quantity max!:2:quantity.Quantity step!:3:quantity.Quantity
CapacityRequirements requests:1:%quantity.Quantity
Counter value!:1:quantity.Quantity
CounterSet name!:1 counters:2:%Counter
Device name!:1 attributes:2:%DeviceAttribute capacity:3:%DeviceCapacity consumesCounters:4:*DeviceCounterConsumption
 nodeName!:5 nodeSelector!:6:core.v1.NodeSelector allNodes!:7:bool taints:8:*DeviceTaint bindsToNode!:9:bool
 bindingConditions:10:* bindingFailureConditions:11:* allowMultipleAllocations!:12:bool
 nodeAllocatableResourceMappings:13:%NodeAllocatableResourceMapping
DeviceAllocationConfiguration source!:1 requests:2:* deviceConfiguration^:3:DeviceConfiguration
DeviceAllocationResult results:1:*DeviceRequestAllocationResult config:2:*DeviceAllocationConfiguration
DeviceAttribute int!:2:int64 bool!:3:bool string!:4 version!:5 ints:6:*int64 bools:7:*bool strings:8:* versions:9:*
DeviceCapacity value!:1:quantity.Quantity requestPolicy!:2:CapacityRequestPolicy
DeviceClaim requests!:1:*DeviceRequest constraints:2:*DeviceConstraint config:3:*DeviceClaimConfiguration
DeviceClaimConfiguration requests:1:* deviceConfiguration^:2:DeviceConfiguration
DeviceClass metadata:1:meta.v1.ObjectMeta spec!:2:DeviceClassSpec
DeviceClassConfiguration deviceConfiguration^:1:DeviceConfiguration
DeviceClassList metadata:1:meta.v1.ListMeta items!:2:*DeviceClass
DeviceClassSpec selectors:1:*DeviceSelector config:2:*DeviceClassConfiguration extendedResourceName!:4
DeviceConfiguration opaque!:1:OpaqueDeviceConfiguration
DeviceConstraint requests:1:* matchAttribute!:2 distinctAttribute!:3
DeviceCounterConsumption counterSet!:1 counters:2:%Counter
DeviceRequest name!:1 exactly!:2:ExactDeviceRequest firstAvailable:3:*DeviceSubRequest
DeviceRequestAllocationResult request!:1 driver!:2 pool!:3 device!:4 adminAccess!:5:bool tolerations:6:*DeviceToleration
 bindingConditions:7:* bindingFailureConditions:8:* shareID!:9 consumedCapacity:10:%quantity.Quantity
DeviceSelector cel!:1:CELDeviceSelector
DeviceSubRequest name!:1 deviceClassName!:2 selectors:3:*DeviceSelector allocationMode:4 count:5:int64
 tolerations:6:*DeviceToleration capacity!:7:CapacityRequirements
DeviceTaint key!:1 value:2 effect!:3 timeAdded!:4:meta.v1.Time
DeviceToleration key:1 operator:2 value:3 effect:4 tolerationSeconds!:5:int64
ExactDeviceRequest deviceClassName!:1 selectors:2:*DeviceSelector allocationMode:3 count:4:int64 adminAccess!:5:bool
 tolerations:6:*DeviceToleration capacity!:7:CapacityRequirements
NetworkDeviceData interfaceName:1 ips:2:* hardwareAddress:3
NodeAllocatableResourceMapping capacityKey!:1 allocationMultiplier!:2:quantity.Quantity
OpaqueDeviceConfiguration driver!:1 parameters!:2:runtime.RawExtension
ResourceClaim metadata:1:meta.v1.ObjectMeta spec!:2:ResourceClaimSpec status:3:ResourceClaimStatus
ResourceClaimConsumerReference apiGroup:1 resource!:3 name!:4 uid!:5
ResourceClaimList metadata:1:meta.v1.ListMeta items!:2:*ResourceClaim
ResourceClaimSpec devices!:1:DeviceClaim
ResourceClaimStatus allocation!:1:AllocationResult reservedFor:2:*ResourceClaimConsumerReference
 devices:4:*AllocatedDeviceStatus
ResourceClaimTemplate metadata:1:meta.v1.ObjectMeta spec!:2:ResourceClaimTemplateSpec
ResourceClaimTemplateList metadata:1:meta.v1.ListMeta items!:2:*ResourceClaimTemplate
ResourceClaimTemplateSpec metadata:1:meta.v1.ObjectMeta spec!:2:ResourceClaimSpec
ResourcePool name!:1 generation!:2:int64 resourceSliceCount!:3:int64
ResourceSlice metadata:1:meta.v1.ObjectMeta spec!:2:ResourceSliceSpec
ResourceSliceList metadata:1:meta.v1.ListMeta items!:2:*ResourceSlice
ResourceSliceSpec driver!:1 pool!:2:ResourcePool nodeName!:3 nodeSelector!:4:core.v1.NodeSelector allNodes!:5:bool
 devices:6:*Device perDeviceNodeSelection!:7:bool sharedCounters:8:*CounterSet
""",
    "scheduling.v1": """
PriorityClass metadata:1:meta.v1.ObjectMeta value!:2:int32 globalDefault:3:bool description:4 preemptionPolicy!:5
PriorityClassList metadata:1:meta.v1.ListMeta items!:2:*PriorityClass
""",
    "storage.v1": """
CSIDriver metadata:1:meta.v1.ObjectMeta spec!:2:CSIDriverSpec
CSIDriverList metadata:1:meta.v1.ListMeta items!:2:*CSIDriver
CSIDriverSpec attachRequired!:1:bool podInfoOnMount!:2:bool volumeLifecycleModes:3:* storageCapacity!:4:bool
 fsGroupPolicy!:5 tokenRequests:6:*TokenRequest requiresRepublish!:7:bool seLinuxMount!:8:bool
 nodeAllocatableUpdatePeriodSeconds!:9:int64 serviceAccountTokenInSecrets!:10:bool
 preventPodSchedulingIfMissing!:11:bool
CSINode metadata:1:meta.v1.ObjectMeta spec!:2:CSINodeSpec
CSINodeDriver name!:1 nodeID!:2 topologyKeys!:3:* allocatable!:4:VolumeNodeResources
CSINodeList metadata:1:meta.v1.ListMeta items!:2:*CSINode
CSINodeSpec drivers:1:*CSINodeDriver
CSIStorageCapacity metadata:1:meta.v1.ObjectMeta nodeTopology!:2:meta.v1.LabelSelector storageClassName!:3
 capacity!:4:quantity.Quantity maximumVolumeSize!:5:quantity.Quantity
CSIStorageCapacityList metadata:1:meta.v1.ListMeta items!:2:*CSIStorageCapacity
StorageClass metadata:1:meta.v1.ObjectMeta provisioner!:2 parameters:3:% reclaimPolicy!:4 mountOptions:5:*
 allowVolumeExpansion!:6:bool volumeBindingMode!:7 allowedTopologies:8:*core.v1.TopologySelectorTerm
StorageClassList metadata:1:meta.v1.ListMeta items!:2:*StorageClass
TokenRequest audience!:1 expirationSeconds!:2:int64
VolumeAttachment metadata:1:meta.v1.ObjectMeta spec!:2:VolumeAttachmentSpec status:3:VolumeAttachmentStatus
VolumeAttachmentList metadata:1:meta.v1.ListMeta items!:2:*VolumeAttachment
VolumeAttachmentSource persistentVolumeName!:1 inlineVolumeSpec!:2:core.v1.PersistentVolumeSpec
VolumeAttachmentSpec attacher!:1 source!:2:VolumeAttachmentSource nodeName!:3
VolumeAttachmentStatus attached!:1:bool attachmentMetadata:2:% attachError!:3:VolumeError detachError!:4:VolumeError
VolumeAttributesClass metadata:1:meta.v1.ObjectMeta driverName!:2 parameters:3:%
VolumeAttributesClassList metadata:1:meta.v1.ListMeta items!:2:*VolumeAttributesClass
VolumeError time:1:meta.v1.Time message:2 errorCode!:3:int32
VolumeNodeResources count!:1:int32
""",
}
