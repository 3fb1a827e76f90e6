package io.tandem.example

import android.app.Activity
import android.os.Bundle
import android.view.View
import android.widget.Button
import android.widget.EditText
import android.widget.ScrollView
import android.widget.TextView
import io.tandem.LlmModule
import java.io.File
import kotlinx.coroutines.CoroutineScope
import kotlinx.coroutines.Dispatchers
import kotlinx.coroutines.SupervisorJob
import kotlinx.coroutines.cancel
import kotlinx.coroutines.launch

/** The chat screen: shows what [ChatViewModel] says and tells it which buttons were pressed. */
class MainActivity : Activity() {
    private val scope = CoroutineScope(SupervisorJob() + Dispatchers.Main)
    private lateinit var module: LlmModule

    override fun onCreate(savedInstanceState: Bundle?) {
        super.onCreate(savedInstanceState)
        setContentView(R.layout.activity_main)
        val file = File(filesDir, "chat.tdm")
        module = LlmModule(file.path)
        val chat = ChatViewModel(ModuleAssistant(module), scope)
        val message = view<EditText>(R.id.message)
        view<Button>(R.id.send).setOnClickListener {
            chat.send(message.text.toString())
            message.text.clear()
        }
        view<Button>(R.id.stop).setOnClickListener { chat.stop() }
        view<Button>(R.id.new_chat).setOnClickListener { chat.reset() }
        scope.launch { chat.state.collect { show(it) } }
        if (!file.exists()) showError(getString(R.string.no_model, file.path))
    }

    override fun onDestroy() {
        scope.cancel()
        module.close() // A generation that is still running ends within a token and frees the model then.
        super.onDestroy()
    }

    private fun show(state: ChatState) {
        view<TextView>(R.id.conversation).text =
            state.lines.joinToString("\n\n") { (if (it.fromUser) "> " else "") + it.text }
        view<Button>(R.id.stop).isEnabled = state.answering
        showError(state.error)
        val scroll = view<ScrollView>(R.id.scroll)
        scroll.post { scroll.fullScroll(View.FOCUS_DOWN) }
    }

    private fun showError(text: String?) {
        val error = view<TextView>(R.id.error)
        error.text = text
        error.visibility = if (text == null) View.GONE else View.VISIBLE
    }

    private fun <T : View> view(id: Int): T = checkNotNull(findViewById<T>(id))
}
