package peeklock;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertInstanceOf;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import com.azure.core.exception.HttpResponseException;
import com.azure.core.exception.ResourceExistsException;
import com.azure.core.exception.ResourceNotFoundException;
import com.azure.messaging.servicebus.ServiceBusClientBuilder;
import com.azure.messaging.servicebus.ServiceBusMessage;
import com.azure.messaging.servicebus.ServiceBusReceivedMessage;
import com.azure.messaging.servicebus.administration.ServiceBusAdministrationClient;
import com.azure.messaging.servicebus.administration.models.AccessRights;
import com.azure.messaging.servicebus.administration.models.CorrelationRuleFilter;
import com.azure.messaging.servicebus.administration.models.CreateQueueOptions;
import com.azure.messaging.servicebus.administration.models.CreateRuleOptions;
import com.azure.messaging.servicebus.administration.models.CreateSubscriptionOptions;
import com.azure.messaging.servicebus.administration.models.CreateTopicOptions;
import com.azure.messaging.servicebus.administration.models.EntityStatus;
import com.azure.messaging.servicebus.administration.models.FalseRuleFilter;
import com.azure.messaging.servicebus.administration.models.QueueProperties;
import com.azure.messaging.servicebus.administration.models.RuleProperties;
import com.azure.messaging.servicebus.administration.models.SharedAccessAuthorizationRule;
import com.azure.messaging.servicebus.administration.models.SubscriptionProperties;
import com.azure.messaging.servicebus.administration.models.TopicProperties;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.stream.Collectors;
import java.util.stream.IntStream;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** What the administration client does, over https as it comes and over http with a policy. */
class AdministrationTest {
    /** Entities enough for three pages of a hundred. */
    private static final int MANY = 250;

    static ServiceBusAdministrationClient client(String scheme) throws Exception {
        Daemon daemon = Daemon.get();
        if (scheme.equals("http")) {
            return daemon.overHttp();
        }
        assumeTrue(daemon.servesHttpsPort(), "the client insists on port 443, which this user or machine does not give");
        return daemon.overHttps();
    }

    @ParameterizedTest
    @ValueSource(strings = {"https", "http"})
    void aQueueKeepsEveryProperty(String scheme) throws Exception {
        ServiceBusAdministrationClient client = client(scheme);
        String name = "java-queue-" + scheme;
        client.createQueue(name + "-target");
        CreateQueueOptions options = new CreateQueueOptions().setLockDuration(Duration.ofSeconds(45))
            .setMaxSizeInMegabytes(2048).setDuplicateDetectionRequired(true).setSessionRequired(true)
            .setDefaultMessageTimeToLive(Duration.ofHours(26)).setDeadLetteringOnMessageExpiration(true)
            .setDuplicateDetectionHistoryTimeWindow(Duration.ofMinutes(7)).setMaxDeliveryCount(7)
            .setBatchedOperationsEnabled(false).setStatus(EntityStatus.SEND_DISABLED)
            .setAutoDeleteOnIdle(Duration.ofHours(76)).setForwardDeadLetteredMessagesTo(name + "-target")
            .setUserMetadata("some <words> & more").setMaxMessageSizeInKilobytes(2048);
        options.getAuthorizationRules().add(new SharedAccessAuthorizationRule("listener", List.of(AccessRights.LISTEN)));
        check(client.createQueue(name, options), name);
        QueueProperties found = client.getQueue(name);
        check(found, name);

        found.setLockDuration(Duration.ofSeconds(90)).setMaxDeliveryCount(3).setUserMetadata("other")
            .setAutoDeleteOnIdle(Duration.ofHours(76));
        QueueProperties updated = client.updateQueue(found);
        assertEquals(Duration.ofSeconds(90), updated.getLockDuration());
        assertEquals(3, updated.getMaxDeliveryCount());
        assertEquals(Duration.ofHours(76), updated.getAutoDeleteOnIdle());
        assertEquals("other", updated.getUserMetadata());
        assertTrue(updated.isSessionRequired() && updated.isDuplicateDetectionRequired());

        client.deleteQueue(name);
        assertFalse(client.getQueueExists(name));
    }

    private static void check(QueueProperties queue, String name) {
        assertEquals(name, queue.getName());
        assertEquals(Duration.ofSeconds(45), queue.getLockDuration());
        assertEquals(2048, queue.getMaxSizeInMegabytes());
        assertTrue(queue.isDuplicateDetectionRequired() && queue.isSessionRequired());
        assertEquals(Duration.ofHours(26), queue.getDefaultMessageTimeToLive());
        assertTrue(queue.isDeadLetteringOnMessageExpiration());
        assertEquals(Duration.ofMinutes(7), queue.getDuplicateDetectionHistoryTimeWindow());
        assertEquals(7, queue.getMaxDeliveryCount());
        assertFalse(queue.isBatchedOperationsEnabled() || queue.isPartitioningEnabled());
        assertEquals(EntityStatus.SEND_DISABLED, queue.getStatus());
        // What forwards is created without a limit of idleness (azure-sdk-for-js 14539); an update sets one.
        assertTrue(queue.getAutoDeleteOnIdle().toDays() > 10_000);
        assertTrue(queue.getForwardDeadLetteredMessagesTo().endsWith("/" + name + "-target"));
        assertNull(queue.getForwardTo());
        assertEquals("some <words> & more", queue.getUserMetadata());
        assertEquals(2048, queue.getMaxMessageSizeInKilobytes());
        assertEquals(1, queue.getAuthorizationRules().size());
        assertEquals("listener", queue.getAuthorizationRules().get(0).getKeyName());
        assertEquals(List.of(AccessRights.LISTEN), queue.getAuthorizationRules().get(0).getAccessRights());
    }

    @ParameterizedTest
    @ValueSource(strings = {"https", "http"})
    void topicSubscriptionAndRuleKeepEveryProperty(String scheme) throws Exception {
        ServiceBusAdministrationClient client = client(scheme);
        String name = "java-topic-" + scheme;
        TopicProperties topic = client.createTopic(name, new CreateTopicOptions().setMaxSizeInMegabytes(4096)
            .setDuplicateDetectionRequired(true).setDefaultMessageTimeToLive(Duration.ofHours(3))
            .setDuplicateDetectionHistoryTimeWindow(Duration.ofMinutes(2)).setBatchedOperationsEnabled(false)
            .setAutoDeleteOnIdle(Duration.ofDays(7)).setUserMetadata("topic"));
        assertEquals(4096, topic.getMaxSizeInMegabytes());
        assertTrue(topic.isDuplicateDetectionRequired());
        assertEquals(Duration.ofHours(3), topic.getDefaultMessageTimeToLive());
        assertEquals(Duration.ofMinutes(2), topic.getDuplicateDetectionHistoryTimeWindow());
        assertFalse(topic.isBatchedOperationsEnabled());
        assertEquals(Duration.ofDays(7), topic.getAutoDeleteOnIdle());
        assertEquals("topic", topic.getUserMetadata());

        SubscriptionProperties subscription = client.createSubscription(name, "all", "first",
            new CreateSubscriptionOptions().setLockDuration(Duration.ofSeconds(20)).setSessionRequired(true)
                .setDefaultMessageTimeToLive(Duration.ofHours(2)).setDeadLetteringOnMessageExpiration(true)
                .setMaxDeliveryCount(4).setStatus(EntityStatus.RECEIVE_DISABLED)
                .setAutoDeleteOnIdle(Duration.ofMinutes(6)).setUserMetadata("subscription"),
            new CreateRuleOptions(new CorrelationRuleFilter().setLabel("red")));
        assertEquals(Duration.ofSeconds(20), subscription.getLockDuration());
        assertTrue(subscription.isSessionRequired() && subscription.isDeadLetteringOnMessageExpiration());
        assertEquals(Duration.ofHours(2), subscription.getDefaultMessageTimeToLive());
        assertEquals(4, subscription.getMaxDeliveryCount());
        assertEquals(EntityStatus.RECEIVE_DISABLED, subscription.getStatus());
        assertEquals(Duration.ofMinutes(6), subscription.getAutoDeleteOnIdle());
        subscription.setLockDuration(Duration.ofSeconds(30));
        assertEquals(Duration.ofSeconds(30), client.updateSubscription(subscription).getLockDuration());

        CorrelationRuleFilter filter = new CorrelationRuleFilter().setContentType("text/plain").setCorrelationId("c")
            .setMessageId("m").setReplyTo("r").setReplyToSessionId("rs").setSessionId("s").setLabel("l").setTo("t");
        Map<String, Object> properties = filter.getProperties();
        // The SDK sends every property as text (KeyValue.java), whatever its type.
        properties.put("text", "<a>");
        properties.put("other", "b & c");
        client.createRule(name, "second", "all", new CreateRuleOptions(filter));
        RuleProperties rule = client.getRule(name, "all", "second");
        CorrelationRuleFilter found = assertInstanceOf(CorrelationRuleFilter.class, rule.getFilter());
        assertEquals("c", found.getCorrelationId());
        assertEquals("l", found.getLabel());
        assertEquals("rs", found.getReplyToSessionId());
        assertEquals(properties, found.getProperties());
        rule.setFilter(new FalseRuleFilter());
        assertInstanceOf(FalseRuleFilter.class, client.updateRule(name, "all", rule).getFilter());
        Set<String> rules = client.listRules(name, "all").stream().map(RuleProperties::getName).collect(Collectors.toSet());
        assertEquals(Set.of("first", "second"), rules);
        client.deleteRule(name, "all", "second");
        client.deleteSubscription(name, "all");
        assertFalse(client.getSubscriptionExists(name, "all"));
        client.deleteTopic(name);
        assertFalse(client.getTopicExists(name));
    }

    @ParameterizedTest
    @ValueSource(strings = {"https", "http"})
    void listingVisitsEveryTopicOnce(String scheme) throws Exception {
        ServiceBusAdministrationClient client = client(scheme);
        List<String> names = IntStream.range(0, MANY).mapToObj(number -> "java-many-%s-%03d".formatted(scheme, number)).toList();
        names.forEach(client::createTopic);
        List<String> listed = client.listTopics().stream().map(TopicProperties::getName)
            .filter(name -> name.startsWith("java-many-" + scheme)).sorted().toList();
        assertEquals(names, listed);
        names.forEach(client::deleteTopic);
    }

    @ParameterizedTest
    @ValueSource(strings = {"https", "http"})
    void mistakesHaveTheirOwnExceptions(String scheme) throws Exception {
        ServiceBusAdministrationClient client = client(scheme);
        String name = "java-mistakes-" + scheme;
        QueueProperties queue = client.createQueue(name);
        assertThrows(ResourceExistsException.class, () -> client.createQueue(name));
        assertThrows(ResourceNotFoundException.class, () -> client.getQueue(name + "-missing"));
        assertThrows(ResourceNotFoundException.class, () -> client.deleteQueue(name + "-missing"));
        HttpResponseException bad = assertThrows(HttpResponseException.class,
            () -> client.updateQueue(queue.setLockDuration(Duration.ofMinutes(10))));
        assertEquals(400, bad.getResponse().getStatusCode());
    }

    @ParameterizedTest
    @ValueSource(strings = {"https", "http"})
    void whatIsCreatedTakesMessagesAndCountsThem(String scheme) throws Exception {
        ServiceBusAdministrationClient client = client(scheme);
        String name = "java-counts-" + scheme;
        client.createQueue(name);
        ServiceBusClientBuilder builder = new ServiceBusClientBuilder().connectionString(Daemon.get().connectionString());
        try (var sender = builder.sender().queueName(name).buildClient();
            var receiver = builder.receiver().queueName(name).disableAutoComplete().buildClient()) {
            for (int number = 0; number < 3; number++) {
                sender.sendMessage(new ServiceBusMessage(Integer.toString(number)));
            }
            ServiceBusReceivedMessage first = receiver.receiveMessages(1).iterator().next();
            assertEquals("0", first.getBody().toString());
            receiver.deadLetter(first);
        }
        var counts = client.getQueueRuntimeProperties(name);
        assertEquals(3, counts.getTotalMessageCount());
        assertEquals(2, counts.getActiveMessageCount());
        assertEquals(1, counts.getDeadLetterMessageCount());
        assertTrue(counts.getSizeInBytes() > 0);
        assertFalse(counts.getAccessedAt().isBefore(counts.getCreatedAt()));
    }

    @ParameterizedTest
    @ValueSource(strings = {"https", "http"})
    void theNamespaceTellsAboutItself(String scheme) throws Exception {
        assertFalse(client(scheme).getNamespaceProperties().getName().isEmpty());
    }
}
