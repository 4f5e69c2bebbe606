"""The messages of Kubernetes of metadata and of the core group. Made by tools/make-messages; schema.py reads it."""

from typing import Final

PACKAGES: Final = {
    "core.v1": """
AWSElasticBlockStoreVolumeSource volumeID!:1 fsType:2 partition:3:int32 readOnly:4:bool
Affinity nodeAffinity!:1:NodeAffinity podAffinity!:2:PodAffinity podAntiAffinity!:3:PodAntiAffinity
AppArmorProfile type!:1 localhostProfile!:2
AttachedVolume name!:1 devicePath!:2
AvoidPods preferAvoidPods:1:*PreferAvoidPodsEntry
AzureDiskVolumeSource diskName!:1 diskURI!:2 cachingMode!:3 fsType!:4 readOnly!:5:bool kind!:6
AzureFilePersistentVolumeSource secretName!:1 shareName!:2 readOnly:3:bool secretNamespace!:4
AzureFileVolumeSource secretName!:1 shareName!:2 readOnly:3:bool
Binding metadata:1:meta.v1.ObjectMeta target!:2:ObjectReference
CSIPersistentVolumeSource driver!:1 volumeHandle!:2 readOnly:3:bool fsType:4 volumeAttributes:5:%
 controllerPublishSecretRef!:6:SecretReference nodeStageSecretRef!:7:SecretReference
 nodePublishSecretRef!:8:SecretReference controllerExpandSecretRef!:9:SecretReference
 nodeExpandSecretRef!:10:SecretReference
CSIVolumeSource driver!:1 readOnly!:2:bool fsType!:3 volumeAttributes:4:% nodePublishSecretRef!:5:LocalObjectReference
Capabilities add:1:* drop:2:*
CephFSPersistentVolumeSource monitors!:1:* path:2 user:3 secretFile:4 secretRef!:5:SecretReference readOnly:6:bool
CephFSVolumeSource monitors!:1:* path:2 user:3 secretFile:4 secretRef!:5:LocalObjectReference readOnly:6:bool
CinderPersistentVolumeSource volumeID!:1 fsType:2 readOnly:3:bool secretRef!:4:SecretReference
CinderVolumeSource volumeID!:1 fsType:2 readOnly:3:bool secretRef!:4:LocalObjectReference
ClientIPConfig timeoutSeconds!:1:int32
ClusterTrustBundleProjection name!:1 signerName!:2 labelSelector!:3:meta.v1.LabelSelector optional!:5:bool path!:4
ComponentCondition type!:1 status!:2 message:3 error:4
ComponentStatus metadata:1:meta.v1.ObjectMeta conditions:2:*ComponentCondition
ComponentStatusList metadata:1:meta.v1.ListMeta items!:2:*ComponentStatus
ConfigMap metadata:1:meta.v1.ObjectMeta immutable!:4:bool data:2:% binaryData:3:%bytes
ConfigMapEnvSource localObjectReference^:1:LocalObjectReference optional!:2:bool
ConfigMapKeySelector localObjectReference^:1:LocalObjectReference key!:2 optional!:3:bool
ConfigMapList metadata:1:meta.v1.ListMeta items!:2:*ConfigMap
ConfigMapNodeConfigSource namespace!:1 name!:2 uid:3 resourceVersion:4 kubeletConfigKey!:5
ConfigMapProjection localObjectReference^:1:LocalObjectReference items:2:*KeyToPath optional!:4:bool
ConfigMapVolumeSource localObjectReference^:1:LocalObjectReference items:2:*KeyToPath defaultMode!:3:int32
 optional!:4:bool
Container name!:1 image:2 command:3:* args:4:* workingDir:5 ports:6:*ContainerPort envFrom:19:*EnvFromSource
 env:7:*EnvVar resources:8:ResourceRequirements resizePolicy:23:*ContainerResizePolicy restartPolicy!:24
 restartPolicyRules:25:*ContainerRestartRule volumeMounts:9:*VolumeMount volumeDevices:21:*VolumeDevice
 livenessProbe!:10:Probe readinessProbe!:11:Probe startupProbe!:22:Probe lifecycle!:12:Lifecycle
 terminationMessagePath:13 terminationMessagePolicy:20 imagePullPolicy:14 securityContext!:15:SecurityContext
 stdin:16:bool stdinOnce:17:bool tty:18:bool
ContainerExtendedResourceRequest containerName!:1 resourceName!:2 requestName!:3
ContainerImage names!:1:* sizeBytes:2:int64
ContainerPort name:1 hostPort:2:int32 containerPort!:3:int32 protocol:4 hostIP:5
ContainerResizePolicy resourceName!:1 restartPolicy!:2
ContainerRestartRule action:1 exitCodes:2:ContainerRestartRuleOnExitCodes
ContainerRestartRuleOnExitCodes operator:1 values:2:*int32
ContainerState waiting!:1:ContainerStateWaiting running!:2:ContainerStateRunning terminated!:3:ContainerStateTerminated
ContainerStateRunning startedAt:1:meta.v1.Time
ContainerStateTerminated exitCode!:1:int32 signal:2:int32 reason:3 message:4 startedAt:5:meta.v1.Time
 finishedAt:6:meta.v1.Time containerID:7
ContainerStateWaiting reason:1 message:2
ContainerStatus name!:1 state:2:ContainerState lastState:3:ContainerState ready!:4:bool restartCount!:5:int32 image!:6
 imageID!:7 containerID:8 started!:9:bool allocatedResources:10:%quantity.Quantity resources!:11:ResourceRequirements
 volumeMounts:12:*VolumeMountStatus user!:13:ContainerUser allocatedResourcesStatus:14:*ResourceStatus stopSignal!:15
ContainerUser linux!:1:LinuxContainerUser
DaemonEndpoint Port!:1:int32
DownwardAPIProjection items:1:*DownwardAPIVolumeFile
DownwardAPIVolumeFile path!:1 fieldRef!:2:ObjectFieldSelector resourceFieldRef!:3:ResourceFieldSelector mode!:4:int32
DownwardAPIVolumeSource items:1:*DownwardAPIVolumeFile defaultMode!:2:int32
EmptyDirVolumeSource medium:1 sizeLimit!:2:quantity.Quantity
EndpointAddress ip!:1 hostname:3 nodeName!:4 targetRef!:2:ObjectReference
EndpointPort name:1 port!:2:int32 protocol:3 appProtocol!:4
EndpointSubset addresses:1:*EndpointAddress notReadyAddresses:2:*EndpointAddress ports:3:*EndpointPort
Endpoints metadata:1:meta.v1.ObjectMeta subsets:2:*EndpointSubset
EndpointsList metadata:1:meta.v1.ListMeta items!:2:*Endpoints
EnvFromSource prefix:1 configMapRef!:2:ConfigMapEnvSource secretRef!:3:SecretEnvSource
EnvVar name!:1 value:2 valueFrom!:3:EnvVarSource
EnvVarSource fieldRef!:1:ObjectFieldSelector resourceFieldRef!:2:ResourceFieldSelector
 configMapKeyRef!:3:ConfigMapKeySelector secretKeyRef!:4:SecretKeySelector fileKeyRef!:5:FileKeySelector
EphemeralContainer ephemeralContainerCommon^:1:EphemeralContainerCommon targetContainerName:2
EphemeralContainerCommon name!:1 image:2 command:3:* args:4:* workingDir:5 ports:6:*ContainerPort
 envFrom:19:*EnvFromSource env:7:*EnvVar resources:8:ResourceRequirements resizePolicy:23:*ContainerResizePolicy
 restartPolicy!:24 restartPolicyRules:25:*ContainerRestartRule volumeMounts:9:*VolumeMount
 volumeDevices:21:*VolumeDevice livenessProbe!:10:Probe readinessProbe!:11:Probe startupProbe!:22:Probe
 lifecycle!:12:Lifecycle terminationMessagePath:13 terminationMessagePolicy:20 imagePullPolicy:14
 securityContext!:15:SecurityContext stdin:16:bool stdinOnce:17:bool tty:18:bool
EphemeralVolumeSource volumeClaimTemplate!:1:PersistentVolumeClaimTemplate
Event metadata!:1:meta.v1.ObjectMeta involvedObject!:2:ObjectReference reason:3 message:4 source:5:EventSource
 firstTimestamp:6:meta.v1.Time lastTimestamp:7:meta.v1.Time count:8:int32 type:9 eventTime:10:meta.v1.MicroTime
 series!:11:EventSeries action:12 related!:13:ObjectReference reportingComponent!:14 reportingInstance!:15
EventList metadata:1:meta.v1.ListMeta items!:2:*Event
EventSeries count:1:int32 lastObservedTime:2:meta.v1.MicroTime
EventSource component:1 host:2
ExecAction command:1:*
FCVolumeSource targetWWNs:1:* lun!:2:int32 fsType:3 readOnly:4:bool wwids:5:*
FileKeySelector volumeName!:1 path!:2 key!:3 optional!:4:bool
FlexPersistentVolumeSource driver!:1 fsType:2 secretRef!:3:SecretReference readOnly:4:bool options:5:%
FlexVolumeSource driver!:1 fsType:2 secretRef!:3:LocalObjectReference readOnly:4:bool options:5:%
FlockerVolumeSource datasetName:1 datasetUUID:2
GCEPersistentDiskVolumeSource pdName!:1 fsType:2 partition:3:int32 readOnly:4:bool
GRPCAction port!:1:int32 service!:2
GitRepoVolumeSource repository!:1 revision:2 directory:3
GlusterfsPersistentVolumeSource endpoints!:1 path!:2 readOnly:3:bool endpointsNamespace!:4
GlusterfsVolumeSource endpoints!:1 path!:2 readOnly:3:bool
HTTPGetAction path:1 port!:2:intstr.IntOrString host:3 scheme:4 httpHeaders:5:*HTTPHeader
HTTPHeader name!:1 value!:2
HostAlias ip!:1 hostnames:2:*
HostIP ip!:1
HostPathVolumeSource path!:1 type!:2
ISCSIPersistentVolumeSource targetPortal!:1 iqn!:2 lun!:3:int32 iscsiInterface:4 fsType:5 readOnly:6:bool portals:7:*
 chapAuthDiscovery:8:bool chapAuthSession:11:bool secretRef!:10:SecretReference initiatorName!:12
ISCSIVolumeSource targetPortal!:1 iqn!:2 lun!:3:int32 iscsiInterface:4 fsType:5 readOnly:6:bool portals:7:*
 chapAuthDiscovery:8:bool chapAuthSession:11:bool secretRef!:10:LocalObjectReference initiatorName!:12
ImageVolumeSource reference:1 pullPolicy:2
ImageVolumeStatus imageRef:1
KeyToPath key!:1 path!:2 mode!:3:int32
Lifecycle postStart!:1:LifecycleHandler preStop!:2:LifecycleHandler stopSignal!:3
LifecycleHandler exec!:1:ExecAction httpGet!:2:HTTPGetAction tcpSocket!:3:TCPSocketAction sleep!:4:SleepAction
LimitRange metadata:1:meta.v1.ObjectMeta spec:2:LimitRangeSpec
LimitRangeItem type!:1 max:2:%quantity.Quantity min:3:%quantity.Quantity default:4:%quantity.Quantity
 defaultRequest:5:%quantity.Quantity maxLimitRequestRatio:6:%quantity.Quantity
LimitRangeList metadata:1:meta.v1.ListMeta items!:2:*LimitRange
LimitRangeSpec limits!:1:*LimitRangeItem
LinuxContainerUser uid!:1:int64 gid!:2:int64 supplementalGroups:3:*int64
List metadata:1:meta.v1.ListMeta items:2:*runtime.RawExtension
LoadBalancerIngress ip:1 hostname:2 ipMode!:3 ports:4:*PortStatus
LoadBalancerStatus ingress:1:*LoadBalancerIngress
LocalObjectReference name:1
LocalVolumeSource path!:1 fsType!:2
ModifyVolumeStatus targetVolumeAttributesClassName:1 status!:2
NFSVolumeSource server!:1 path!:2 readOnly:3:bool
Namespace metadata:1:meta.v1.ObjectMeta spec:2:NamespaceSpec status:3:NamespaceStatus
NamespaceCondition type!:1 status!:2 lastTransitionTime:4:meta.v1.Time reason:5 message:6
NamespaceList metadata:1:meta.v1.ListMeta items!:2:*Namespace
NamespaceSpec finalizers:1:*
NamespaceStatus phase:1 conditions:2:*NamespaceCondition
Node metadata:1:meta.v1.ObjectMeta spec:2:NodeSpec status:3:NodeStatus
NodeAddress type!:1 address!:2
NodeAffinity requiredDuringSchedulingIgnoredDuringExecution!:1:NodeSelector
 preferredDuringSchedulingIgnoredDuringExecution:2:*PreferredSchedulingTerm
NodeAllocatableResourceClaimStatus resourceClaimName!:1 containers:2:* resources!:3:%quantity.Quantity
NodeCondition type!:1 status!:2 lastHeartbeatTime:3:meta.v1.Time lastTransitionTime:4:meta.v1.Time reason:5 message:6
NodeConfigSource configMap!:2:ConfigMapNodeConfigSource
NodeConfigStatus assigned!:1:NodeConfigSource active!:2:NodeConfigSource lastKnownGood!:3:NodeConfigSource error:4
NodeDaemonEndpoints kubeletEndpoint:1:DaemonEndpoint
NodeFeatures supplementalGroupsPolicy!:1:bool
NodeList metadata:1:meta.v1.ListMeta items!:2:*Node
NodeProxyOptions path:1
NodeRuntimeHandler name!:1 features!:2:NodeRuntimeHandlerFeatures
NodeRuntimeHandlerFeatures recursiveReadOnlyMounts!:1:bool userNamespaces!:2:bool
NodeSelector nodeSelectorTerms!:1:*NodeSelectorTerm
NodeSelectorRequirement key!:1 operator!:2 values:3:*
NodeSelectorTerm matchExpressions:1:*NodeSelectorRequirement matchFields:2:*NodeSelectorRequirement
NodeSpec podCIDR:1 podCIDRs:7:* providerID:3 unschedulable:4:bool taints:5:*Taint configSource!:6:NodeConfigSource
 externalID:2
NodeStatus capacity:1:%quantity.Quantity allocatable:2:%quantity.Quantity phase:3 conditions:4:*NodeCondition
 addresses:5:*NodeAddress daemonEndpoints:6:NodeDaemonEndpoints nodeInfo:7:NodeSystemInfo images:8:*ContainerImage
 volumesInUse:9:* volumesAttached:10:*AttachedVolume config!:11:NodeConfigStatus runtimeHandlers:12:*NodeRuntimeHandler
 features!:13:NodeFeatures declaredFeatures:14:*
NodeSwapStatus capacity!:1:int64
NodeSystemInfo machineID!:1 systemUUID!:2 bootID!:3 kernelVersion!:4 osImage!:5 containerRuntimeVersion!:6
 kubeletVersion!:7 kubeProxyVersion!:8 operatingSystem!:9 architecture!:10 swap!:11:NodeSwapStatus
ObjectFieldSelector apiVersion:1 fieldPath!:2
ObjectReference kind:1 namespace:2 name:3 uid:4 apiVersion:5 resourceVersion:6 fieldPath:7
PersistentVolume metadata:1:meta.v1.ObjectMeta spec:2:PersistentVolumeSpec status:3:PersistentVolumeStatus
PersistentVolumeClaim metadata:1:meta.v1.ObjectMeta spec:2:PersistentVolumeClaimSpec
 status:3:PersistentVolumeClaimStatus
PersistentVolumeClaimCondition type!:1 status!:2 lastProbeTime:3:meta.v1.Time lastTransitionTime:4:meta.v1.Time reason:5
 message:6
PersistentVolumeClaimList metadata:1:meta.v1.ListMeta items!:2:*PersistentVolumeClaim
PersistentVolumeClaimSpec accessModes:1:* selector!:4:meta.v1.LabelSelector resources:2:VolumeResourceRequirements
 volumeName:3 storageClassName!:5 volumeMode!:6 dataSource!:7:TypedLocalObjectReference
 dataSourceRef!:8:TypedObjectReference volumeAttributesClassName!:9
PersistentVolumeClaimStatus phase:1 accessModes:2:* capacity:3:%quantity.Quantity
 conditions:4:*PersistentVolumeClaimCondition allocatedResources:5:%quantity.Quantity allocatedResourceStatuses:7:%
 currentVolumeAttributesClassName!:8 modifyVolumeStatus!:9:ModifyVolumeStatus
PersistentVolumeClaimTemplate metadata:1:meta.v1.ObjectMeta spec!:2:PersistentVolumeClaimSpec
PersistentVolumeClaimVolumeSource claimName!:1 readOnly:2:bool
PersistentVolumeList metadata:1:meta.v1.ListMeta items!:2:*PersistentVolume
PersistentVolumeSource gcePersistentDisk!:1:GCEPersistentDiskVolumeSource
 awsElasticBlockStore!:2:AWSElasticBlockStoreVolumeSource hostPath!:3:HostPathVolumeSource
 glusterfs!:4:GlusterfsPersistentVolumeSource nfs!:5:NFSVolumeSource rbd!:6:RBDPersistentVolumeSource
 iscsi!:7:ISCSIPersistentVolumeSource cinder!:8:CinderPersistentVolumeSource cephfs!:9:CephFSPersistentVolumeSource
 fc!:10:FCVolumeSource flocker!:11:FlockerVolumeSource flexVolume!:12:FlexPersistentVolumeSource
 azureFile!:13:AzureFilePersistentVolumeSource vsphereVolume!:14:VsphereVirtualDiskVolumeSource
 quobyte!:15:QuobyteVolumeSource azureDisk!:16:AzureDiskVolumeSource
 photonPersistentDisk!:17:PhotonPersistentDiskVolumeSource portworxVolume!:18:PortworxVolumeSource
 scaleIO!:19:ScaleIOPersistentVolumeSource local!:20:LocalVolumeSource storageos!:21:StorageOSPersistentVolumeSource
 csi!:22:CSIPersistentVolumeSource
PersistentVolumeSpec capacity:1:%quantity.Quantity persistentVolumeSource^:2:PersistentVolumeSource accessModes:3:*
 claimRef!:4:ObjectReference persistentVolumeReclaimPolicy:5 storageClassName:6 mountOptions:7:* volumeMode!:8
 nodeAffinity!:9:VolumeNodeAffinity volumeAttributesClassName!:10
PersistentVolumeStatus phase:1 message:2 reason:3 lastPhaseTransitionTime!:4:meta.v1.Time
PhotonPersistentDiskVolumeSource pdID!:1 fsType:2
Pod metadata:1:meta.v1.ObjectMeta spec:2:PodSpec status:3:PodStatus
PodAffinity requiredDuringSchedulingIgnoredDuringExecution:1:*PodAffinityTerm
 preferredDuringSchedulingIgnoredDuringExecution:2:*WeightedPodAffinityTerm
PodAffinityTerm labelSelector!:1:meta.v1.LabelSelector namespaces:2:* topologyKey!:3
 namespaceSelector!:4:meta.v1.LabelSelector matchLabelKeys:5:* mismatchLabelKeys:6:*
PodAntiAffinity requiredDuringSchedulingIgnoredDuringExecution:1:*PodAffinityTerm
 preferredDuringSchedulingIgnoredDuringExecution:2:*WeightedPodAffinityTerm
PodAttachOptions stdin:1:bool stdout:2:bool stderr:3:bool tty:4:bool container:5
PodCertificateProjection signerName:1 keyType:2 maxExpirationSeconds!:3:int32 credentialBundlePath:4 keyPath:5
 certificateChainPath:6 userAnnotations:7:%
PodCondition type!:1 observedGeneration:7:int64 status!:2 lastProbeTime:3:meta.v1.Time lastTransitionTime:4:meta.v1.Time
 reason:5 message:6
PodDNSConfig nameservers:1:* searches:2:* options:3:*PodDNSConfigOption
PodDNSConfigOption name:1 value!:2
PodExecOptions stdin:1:bool stdout:2:bool stderr:3:bool tty:4:bool container:5 command!:6:*
PodExtendedResourceClaimStatus requestMappings!:1:*ContainerExtendedResourceRequest resourceClaimName!:2
PodIP ip!:1
PodList metadata:1:meta.v1.ListMeta items!:2:*Pod
PodLogOptions container:1 follow:2:bool previous:3:bool sinceSeconds!:4:int64 sinceTime!:5:meta.v1.Time
 timestamps:6:bool tailLines!:7:int64 limitBytes!:8:int64 insecureSkipTLSVerifyBackend:9:bool stream!:10
PodOS name!:1
PodPortForwardOptions ports:1:*int32
PodProxyOptions path:1
PodReadinessGate conditionType!:1
PodResourceClaim name!:1 resourceClaimName!:3 resourceClaimTemplateName!:4
PodResourceClaimStatus name!:1 resourceClaimName!:2
PodSchedulingGate name!:1
PodSchedulingGroup podGroupName!:1
PodSecurityContext seLinuxOptions!:1:SELinuxOptions windowsOptions!:8:WindowsSecurityContextOptions runAsUser!:2:int64
 runAsGroup!:6:int64 runAsNonRoot!:3:bool supplementalGroups:4:*int64 supplementalGroupsPolicy!:12 fsGroup!:5:int64
 sysctls:7:*Sysctl fsGroupChangePolicy!:9 seccompProfile!:10:SeccompProfile appArmorProfile!:11:AppArmorProfile
 seLinuxChangePolicy!:13
PodSignature podController!:1:meta.v1.OwnerReference
PodSpec volumes:1:*Volume initContainers:20:*Container containers:2:*Container
 ephemeralContainers:34:*EphemeralContainer restartPolicy:3 terminationGracePeriodSeconds!:4:int64
 activeDeadlineSeconds!:5:int64 dnsPolicy:6 nodeSelector:7:% serviceAccountName:8 serviceAccount:9
 automountServiceAccountToken!:21:bool nodeName:10 hostNetwork:11:bool hostPID:12:bool hostIPC:13:bool
 shareProcessNamespace!:27:bool securityContext!:14:PodSecurityContext imagePullSecrets:15:*LocalObjectReference
 hostname:16 subdomain:17 affinity!:18:Affinity schedulerName:19 tolerations:22:*Toleration hostAliases:23:*HostAlias
 priorityClassName:24 priority!:25:int32 dnsConfig!:26:PodDNSConfig readinessGates:28:*PodReadinessGate
 runtimeClassName!:29 enableServiceLinks!:30:bool preemptionPolicy!:31 overhead:32:%quantity.Quantity
 topologySpreadConstraints:33:*TopologySpreadConstraint setHostnameAsFQDN!:35:bool os!:36:PodOS hostUsers!:37:bool
 schedulingGates:38:*PodSchedulingGate resourceClaims:39:*PodResourceClaim resources!:40:ResourceRequirements
 hostnameOverride!:41 schedulingGroup!:43:PodSchedulingGroup
PodStatus observedGeneration:17:int64 phase:1 conditions:2:*PodCondition message:3 reason:4 nominatedNodeName:11
 hostIP:5 hostIPs:16:*HostIP podIP:6 podIPs:12:*PodIP startTime!:7:meta.v1.Time
 initContainerStatuses:10:*ContainerStatus containerStatuses:8:*ContainerStatus qosClass:9
 ephemeralContainerStatuses:13:*ContainerStatus resize:14 resourceClaimStatuses:15:*PodResourceClaimStatus
 extendedResourceClaimStatus!:18:PodExtendedResourceClaimStatus allocatedResources:19:%quantity.Quantity
 resources!:20:ResourceRequirements nodeAllocatableResourceClaimStatuses:21:*NodeAllocatableResourceClaimStatus
PodStatusResult metadata:1:meta.v1.ObjectMeta status:2:PodStatus
PodTemplate metadata:1:meta.v1.ObjectMeta template:2:PodTemplateSpec
PodTemplateList metadata:1:meta.v1.ListMeta items!:2:*PodTemplate
PodTemplateSpec metadata:1:meta.v1.ObjectMeta spec:2:PodSpec
PortStatus port!:1:int32 protocol!:2 error!:3
PortworxVolumeSource volumeID!:1 fsType:2 readOnly:3:bool
Preconditions uid!:1
PreferAvoidPodsEntry podSignature!:1:PodSignature evictionTime:2:meta.v1.Time reason:3 message:4
PreferredSchedulingTerm weight!:1:int32 preference!:2:NodeSelectorTerm
Probe handler^:1:ProbeHandler initialDelaySeconds:2:int32 timeoutSeconds:3:int32 periodSeconds:4:int32
 successThreshold:5:int32 failureThreshold:6:int32 terminationGracePeriodSeconds!:7:int64
ProbeHandler exec!:1:ExecAction httpGet!:2:HTTPGetAction tcpSocket!:3:TCPSocketAction grpc!:4:GRPCAction
ProjectedVolumeSource sources!:1:*VolumeProjection defaultMode!:2:int32
QuobyteVolumeSource registry!:1 volume!:2 readOnly:3:bool user:4 group:5 tenant:6
RBDPersistentVolumeSource monitors!:1:* image!:2 fsType:3 pool:4 user:5 keyring:6 secretRef!:7:SecretReference
 readOnly:8:bool
RBDVolumeSource monitors!:1:* image!:2 fsType:3 pool:4 user:5 keyring:6 secretRef!:7:LocalObjectReference
 readOnly:8:bool
RangeAllocation metadata:1:meta.v1.ObjectMeta range!:2 data!:3:bytes
ReplicationController metadata:1:meta.v1.ObjectMeta spec:2:ReplicationControllerSpec
 status:3:ReplicationControllerStatus
ReplicationControllerCondition type!:1 status!:2 lastTransitionTime:3:meta.v1.Time reason:4 message:5
ReplicationControllerList metadata:1:meta.v1.ListMeta items!:2:*ReplicationController
ReplicationControllerSpec replicas!:1:int32 minReadySeconds:4:int32 selector:2:% template!:3:PodTemplateSpec
ReplicationControllerStatus replicas!:1:int32 fullyLabeledReplicas:2:int32 readyReplicas:4:int32
 availableReplicas:5:int32 observedGeneration:3:int64 conditions:6:*ReplicationControllerCondition
ResourceClaim name!:1 request:2
ResourceFieldSelector containerName:1 resource!:2 divisor:3:quantity.Quantity
ResourceHealth resourceID!:1 health:2 message!:6
ResourceQuota metadata:1:meta.v1.ObjectMeta spec:2:ResourceQuotaSpec status:3:ResourceQuotaStatus
ResourceQuotaList metadata:1:meta.v1.ListMeta items!:2:*ResourceQuota
ResourceQuotaSpec hard:1:%quantity.Quantity scopes:2:* scopeSelector!:3:ScopeSelector
ResourceQuotaStatus hard:1:%quantity.Quantity used:2:%quantity.Quantity
ResourceRequirements limits:1:%quantity.Quantity requests:2:%quantity.Quantity claims:3:*ResourceClaim
ResourceStatus name!:1 resources:2:*ResourceHealth
SELinuxOptions user:1 role:2 type:3 level:4
ScaleIOPersistentVolumeSource gateway!:1 system!:2 secretRef!:3:SecretReference sslEnabled:4:bool protectionDomain:5
 storagePool:6 storageMode:7 volumeName:8 fsType:9 readOnly:10:bool
ScaleIOVolumeSource gateway!:1 system!:2 secretRef!:3:LocalObjectReference sslEnabled:4:bool protectionDomain:5
 storagePool:6 storageMode:7 volumeName:8 fsType:9 readOnly:10:bool
ScopeSelector matchExpressions:1:*ScopedResourceSelectorRequirement
ScopedResourceSelectorRequirement scopeName!:1 operator!:2 values:3:*
SeccompProfile type!:1 localhostProfile!:2
Secret metadata:1:meta.v1.ObjectMeta immutable!:5:bool data:2:%bytes stringData:4:% type:3
SecretEnvSource localObjectReference^:1:LocalObjectReference optional!:2:bool
SecretKeySelector localObjectReference^:1:LocalObjectReference key!:2 optional!:3:bool
SecretList metadata:1:meta.v1.ListMeta items!:2:*Secret
SecretProjection localObjectReference^:1:LocalObjectReference items:2:*KeyToPath optional!:4:bool
SecretReference name:1 namespace:2
SecretVolumeSource secretName:1 items:2:*KeyToPath defaultMode!:3:int32 optional!:4:bool
SecurityContext capabilities!:1:Capabilities privileged!:2:bool seLinuxOptions!:3:SELinuxOptions
 windowsOptions!:10:WindowsSecurityContextOptions runAsUser!:4:int64 runAsGroup!:8:int64 runAsNonRoot!:5:bool
 readOnlyRootFilesystem!:6:bool allowPrivilegeEscalation!:7:bool procMount!:9 seccompProfile!:11:SeccompProfile
 appArmorProfile!:12:AppArmorProfile
SerializedReference reference:1:ObjectReference
Service metadata:1:meta.v1.ObjectMeta spec:2:ServiceSpec status:3:ServiceStatus
ServiceAccount metadata:1:meta.v1.ObjectMeta secrets:2:*ObjectReference imagePullSecrets:3:*LocalObjectReference
 automountServiceAccountToken!:4:bool
ServiceAccountList metadata:1:meta.v1.ListMeta items!:2:*ServiceAccount
ServiceAccountTokenProjection audience:1 expirationSeconds!:2:int64 path!:3
ServiceList metadata:1:meta.v1.ListMeta items!:2:*Service
ServicePort name:1 protocol:2 appProtocol!:6 port!:3:int32 targetPort:4:intstr.IntOrString nodePort:5:int32
ServiceProxyOptions path:1
ServiceSpec ports:1:*ServicePort selector:2:% clusterIP:3 clusterIPs:18:* type:4 externalIPs:5:* sessionAffinity:7
 loadBalancerIP:8 loadBalancerSourceRanges:9:* externalName:10 externalTrafficPolicy:11 healthCheckNodePort:12:int32
 publishNotReadyAddresses:13:bool sessionAffinityConfig!:14:SessionAffinityConfig ipFamilies:19:* ipFamilyPolicy!:17
 allocateLoadBalancerNodePorts!:20:bool loadBalancerClass!:21 internalTrafficPolicy!:22 trafficDistribution!:23
ServiceStatus loadBalancer:1:LoadBalancerStatus conditions:2:*meta.v1.Condition
SessionAffinityConfig clientIP!:1:ClientIPConfig
SleepAction seconds!:1:int64
StorageOSPersistentVolumeSource volumeName:1 volumeNamespace:2 fsType:3 readOnly:4:bool secretRef!:5:ObjectReference
StorageOSVolumeSource volumeName:1 volumeNamespace:2 fsType:3 readOnly:4:bool secretRef!:5:LocalObjectReference
Sysctl name!:1 value!:2
TCPSocketAction port!:1:intstr.IntOrString host:2
Taint key!:1 value:2 effect!:3 timeAdded!:4:meta.v1.Time
Toleration key:1 operator:2 value:3 effect:4 tolerationSeconds!:5:int64
TopologySelectorLabelRequirement key!:1 values!:2:*
TopologySelectorTerm matchLabelExpressions:1:*TopologySelectorLabelRequirement
TopologySpreadConstraint maxSkew!:1:int32 topologyKey!:2 whenUnsatisfiable!:3 labelSelector!:4:meta.v1.LabelSelector
 minDomains!:5:int32 nodeAffinityPolicy!:6 nodeTaintsPolicy!:7 matchLabelKeys:8:*
TypedLocalObjectReference apiGroup!:1 kind!:2 name!:3
TypedObjectReference apiGroup!:1 kind!:2 name!:3 namespace!:4
Volume name!:1 volumeSource^:2:VolumeSource
VolumeDevice name!:1 devicePath!:2
VolumeMount name!:1 readOnly:2:bool recursiveReadOnly!:7 mountPath!:3 subPath:4 mountPropagation!:5 subPathExpr:6
VolumeMountStatus name!:1 mountPath!:2 readOnly:3:bool recursiveReadOnly!:4 volumeStatus!:5:VolumeStatus
VolumeNodeAffinity required!:1:NodeSelector
VolumeProjection secret!:1:SecretProjection downwardAPI!:2:DownwardAPIProjection configMap!:3:ConfigMapProjection
 serviceAccountToken!:4:ServiceAccountTokenProjection clusterTrustBundle!:5:ClusterTrustBundleProjection
 podCertificate!:6:PodCertificateProjection
VolumeResourceRequirements limits:1:%quantity.Quantity requests:2:%quantity.Quantity
VolumeSource hostPath!:1:HostPathVolumeSource emptyDir!:2:EmptyDirVolumeSource
 gcePersistentDisk!:3:GCEPersistentDiskVolumeSource awsElasticBlockStore!:4:AWSElasticBlockStoreVolumeSource
 gitRepo!:5:GitRepoVolumeSource secret!:6:SecretVolumeSource nfs!:7:NFSVolumeSource iscsi!:8:ISCSIVolumeSource
 glusterfs!:9:GlusterfsVolumeSource persistentVolumeClaim!:10:PersistentVolumeClaimVolumeSource rbd!:11:RBDVolumeSource
 flexVolume!:12:FlexVolumeSource cinder!:13:CinderVolumeSource cephfs!:14:CephFSVolumeSource
 flocker!:15:FlockerVolumeSource downwardAPI!:16:DownwardAPIVolumeSource fc!:17:FCVolumeSource
 azureFile!:18:AzureFileVolumeSource configMap!:19:ConfigMapVolumeSource
 vsphereVolume!:20:VsphereVirtualDiskVolumeSource quobyte!:21:QuobyteVolumeSource azureDisk!:22:AzureDiskVolumeSource
 photonPersistentDisk!:23:PhotonPersistentDiskVolumeSource projected!:26:ProjectedVolumeSource
 portworxVolume!:24:PortworxVolumeSource scaleIO!:25:ScaleIOVolumeSource storageos!:27:StorageOSVolumeSource
 csi!:28:CSIVolumeSource ephemeral!:29:EphemeralVolumeSource image!:30:ImageVolumeSource
VolumeStatus image!:1:ImageVolumeStatus
VsphereVirtualDiskVolumeSource volumePath!:1 fsType:2 storagePolicyName:3 storagePolicyID:4
WeightedPodAffinityTerm weight!:1:int32 podAffinityTerm!:2:PodAffinityTerm
WindowsSecurityContextOptions gmsaCredentialSpecName!:1 gmsaCredentialSpec!:2 runAsUserName!:3 hostProcess!:4:bool
""",
    "intstr": """
IntOrString type:1:int64 intVal:2:int32 strVal:3
""",
    "meta.v1": """
APIGroup name!:1 versions!:2:*GroupVersionForDiscovery preferredVersion:3:GroupVersionForDiscovery
 serverAddressByClientCIDRs:4:*ServerAddressByClientCIDR
APIGroupList groups!:1:*APIGroup
APIResource name!:1 singularName!:6 namespaced!:2:bool group:8 version:9 kind!:3 verbs!:4:Verbs shortNames:5:*
 categories:7:* storageVersionHash:10
APIResourceList groupVersion!:1 resources!:2:*APIResource
APIVersions versions!:1:* serverAddressByClientCIDRs!:2:*ServerAddressByClientCIDR
ApplyOptions dryRun:1:* force!:2:bool fieldManager!:3
Condition type!:1 status!:2 observedGeneration:3:int64 lastTransitionTime!:4:Time reason!:5 message!:6
CreateOptions dryRun:1:* fieldManager:3 fieldValidation:4
DeleteOptions gracePeriodSeconds!:1:int64 preconditions!:2:Preconditions orphanDependents!:3:bool propagationPolicy!:4
 dryRun:5:* ignoreStoreReadErrorWithClusterBreakingPotential!:6:bool
Duration duration:1:int64
FieldSelectorRequirement key!:1 operator!:2 values:3:*
FieldsV1 Raw:1:bytes
GetOptions resourceVersion:1
GroupKind group:1 kind:2
GroupResource group:1 resource:2
GroupVersion group:1 version:2
GroupVersionForDiscovery groupVersion!:1 version!:2
GroupVersionKind group:1 version:2 kind:3
GroupVersionResource group:1 version:2 resource:3
LabelSelector matchLabels:1:% matchExpressions:2:*LabelSelectorRequirement
LabelSelectorRequirement key!:1 operator!:2 values:3:*
List metadata:1:ListMeta items!:2:*runtime.RawExtension
ListMeta selfLink:1 resourceVersion:2 continue:3 remainingItemCount!:4:int64 shardInfo!:5:ShardInfo
ListOptions labelSelector:1 fieldSelector:2 watch:3:bool allowWatchBookmarks:9:bool resourceVersion:4
 resourceVersionMatch:10 timeoutSeconds!:5:int64 limit:7:int64 continue:8 sendInitialEvents!:11:bool shardSelector:15
ManagedFieldsEntry manager:1 operation:2 apiVersion:3 time!:4:Time fieldsType:6 fieldsV1!:7:FieldsV1 subresource:8
MicroTime seconds:1:int64 nanos:2:int32
ObjectMeta name:1 generateName:2 namespace:3 selfLink:4 uid:5 resourceVersion:6 generation:7:int64
 creationTimestamp:8:Time deletionTimestamp!:9:Time deletionGracePeriodSeconds!:10:int64 labels:11:% annotations:12:%
 ownerReferences:13:*OwnerReference finalizers:14:* managedFields:17:*ManagedFieldsEntry
OwnerReference apiVersion!:5 kind!:1 name!:3 uid!:4 controller!:6:bool blockOwnerDeletion!:7:bool
PartialObjectMetadata metadata:1:ObjectMeta
PartialObjectMetadataList metadata:1:ListMeta items!:2:*PartialObjectMetadata
PatchOptions dryRun:1:* force!:2:bool fieldManager:3 fieldValidation:4
Preconditions uid!:1 resourceVersion!:2
RootPaths paths!:1:*
ServerAddressByClientCIDR clientCIDR!:1 serverAddress!:2
ShardInfo selector!:1
Status metadata:1:ListMeta status:2 message:3 reason:4 details!:5:StatusDetails code:6:int32
StatusCause reason:1 message:2 field:3
StatusDetails name:1 group:2 kind:3 uid:6 causes:4:*StatusCause retryAfterSeconds:5:int32
TableOptions includeObject:1
Time seconds:1:int64 nanos:2:int32
Timestamp seconds:1:int64 nanos:2:int32
TypeMeta kind:1 apiVersion:2
UpdateOptions dryRun:1:* fieldManager:2 fieldValidation:3
Verbs items:1:*
WatchEvent type:1 object:2:runtime.RawExtension
""",
    "quantity": """
Quantity string:1
QuantityValue string:1
""",
    "runtime": """
RawExtension raw:1:bytes
TypeMeta apiVersion:1 kind:2
Unknown typeMeta:1:TypeMeta raw:2:bytes contentEncoding:3 contentType:4
""",
}
