package peeklock;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertInstanceOf;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.azure.core.exception.HttpResponseException;
import com.azure.messaging.servicebus.ServiceBusClientBuilder;
import com.azure.messaging.servicebus.ServiceBusMessage;
import com.azure.messaging.servicebus.ServiceBusReceivedMessage;
import com.azure.messaging.servicebus.administration.ServiceBusAdministrationClient;
import com.azure.messaging.servicebus.administration.models.CreateRuleOptions;
import com.azure.messaging.servicebus.administration.models.RuleProperties;
import com.azure.messaging.servicebus.administration.models.SqlRuleAction;
import com.azure.messaging.servicebus.administration.models.SqlRuleFilter;
import com.azure.messaging.servicebus.administration.models.TrueRuleFilter;
import com.azure.messaging.servicebus.models.ServiceBusReceiveMode;
import java.util.Map;
import java.util.stream.Stream;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** Rules in SQL by the administration client, and what they make of messages. */
class RulesTest {
    /** A client, with a topic whose only subscription has no rules. */
    private static ServiceBusAdministrationClient unruled(String scheme, String topic) throws Exception {
        ServiceBusAdministrationClient client = AdministrationTest.client(scheme);
        client.createTopic(topic);
        client.createSubscription(topic, "all");
        client.deleteRule(topic, "all", "$Default");
        return client;
    }

    @ParameterizedTest
    @ValueSource(strings = {"https", "http"})
    void sqlRulesComeBackAndSort(String scheme) throws Exception {
        String topic = "java-rules-" + scheme;
        ServiceBusAdministrationClient client = unruled(scheme, topic);
        String expression = "n > 4 AND word = '<a> & ''b'''";
        SqlRuleAction action = new SqlRuleAction("SET n = n + 2; SET sys.Label = 'é'; REMOVE word");
        client.createRule(topic, "both", "all", new CreateRuleOptions(new SqlRuleFilter(expression)).setAction(action));
        client.createRule(topic, "bare", "all", new CreateRuleOptions(new TrueRuleFilter()));
        for (int round = 0; round < 2; round++) {
            RuleProperties rule = client.getRule(topic, "all", "both");
            assertEquals(expression, assertInstanceOf(SqlRuleFilter.class, rule.getFilter()).getSqlExpression());
            SqlRuleAction found = assertInstanceOf(SqlRuleAction.class, rule.getAction());
            assertEquals(action.getSqlExpression(), found.getSqlExpression());
            client.updateRule(topic, "all", rule);
        }

        ServiceBusClientBuilder builder = new ServiceBusClientBuilder().connectionString(Daemon.get().connectionString());
        try (var sender = builder.sender().topicName(topic).buildClient();
            var receiver = builder.receiver().topicName(topic).subscriptionName("all")
                .receiveMode(ServiceBusReceiveMode.RECEIVE_AND_DELETE).buildClient()) {
            for (int n = 5; n >= 4; n--) {
                ServiceBusMessage message = new ServiceBusMessage(Integer.toString(n));
                message.getApplicationProperties().putAll(Map.of("n", n, "word", "<a> & 'b'"));
                sender.sendMessage(message);
            }
            Stream<ServiceBusReceivedMessage> messages = Stream.empty();
            for (int count = 0; count < 3; count++) {
                messages = Stream.concat(messages, Stream.of(receiver.receiveMessages(1).iterator().next()));
            }
            var received = messages.toList();
            assertEquals("554", String.join("", received.stream().map(each -> each.getBody().toString()).toList()));
            assertEquals("é", received.get(1).getSubject());
            // An int stays an int for whom it matters.
            assertEquals(Map.of("n", 7, "RuleName", "both"), received.get(1).getApplicationProperties());
            assertEquals(Map.of("n", 5, "word", "<a> & 'b'"), received.get(0).getApplicationProperties());
        }
    }

    @ParameterizedTest
    @ValueSource(strings = {"https", "http"})
    void parametersAreTexts(String scheme) throws Exception {
        String topic = "java-parameters-" + scheme;
        ServiceBusAdministrationClient client = unruled(scheme, topic);
        SqlRuleFilter filter = new SqlRuleFilter("word = @word");
        filter.getParameters().put("@word", "<a> & 'b'");
        SqlRuleAction action = new SqlRuleAction("SET other = @other");
        action.getParameters().put("@other", "é");
        client.createRule(topic, "r", "all", new CreateRuleOptions(filter).setAction(action));
        RuleProperties rule = client.getRule(topic, "all", "r");
        assertEquals(filter.getParameters(), assertInstanceOf(SqlRuleFilter.class, rule.getFilter()).getParameters());
        assertEquals(action.getParameters(), assertInstanceOf(SqlRuleAction.class, rule.getAction()).getParameters());
    }

    @ParameterizedTest
    @ValueSource(strings = {"https", "http"})
    void sqlThatMakesNoSenseIsRefusedWithItsPlace(String scheme) throws Exception {
        String topic = "java-wrong-" + scheme;
        ServiceBusAdministrationClient client = unruled(scheme, topic);
        var wrong = Stream.of(new CreateRuleOptions(new SqlRuleFilter("n = ")),
            new CreateRuleOptions(new TrueRuleFilter()).setAction(new SqlRuleAction("n = 1")));
        wrong.forEach(options -> {
            var refused = assertThrows(HttpResponseException.class, () -> client.createRule(topic, "r", "all", options));
            assertEquals(400, refused.getResponse().getStatusCode());
            assertTrue(refused.getMessage().contains("at character"), refused.getMessage());
        });
    }
}
